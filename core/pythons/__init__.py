"""The Pythons of this machine: where they are, and what each says of itself. None is ever imported from."""

from core.pythons.facts import LEAST_FOR_RECIPES, LEAST_FOR_SCRIPTS, Facts, Package, ask, locate
from core.pythons.finding import Found, find
from core.pythons.remembered import Remembered
from core.pythons.search import Entry, Search

__all__ = [
    "LEAST_FOR_RECIPES",
    "LEAST_FOR_SCRIPTS",
    "Entry",
    "Facts",
    "Found",
    "Package",
    "Remembered",
    "Search",
    "ask",
    "find",
    "locate",
]
