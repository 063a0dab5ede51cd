"""Programs that people have already: looked at without importing them, and what would end them at once."""

from core.scripts.look import Look, look_at
from core.scripts.problems import Checking, Memory, problems

__all__ = ["Checking", "Look", "Memory", "look_at", "problems"]
