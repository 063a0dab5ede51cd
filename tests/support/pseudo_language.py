"""A language that does not exist: each letter outside fields has an accent, so that an English sentence stands out."""

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

from core import language

CODE = "eo"
"""A language for which Python knows the plural, as English has it."""
PLAIN, ACCENTED = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "áƀćďéƒǵĥíĵķĺḿńóṕɋŕśťúṽŵẋýźÁɃĆĎÉƑǴĤÍĴĶĹḾŃÓṔɊŔŚŤÚṼŴẊÝŹ",
)
ACCENTS = str.maketrans(PLAIN, ACCENTED)
FIELD = re.compile(r"(\{\{|\}\}|\{[^{}]*\})")


@cache
def update_script() -> ModuleType:
    """Return the script that collects the sentences of the source."""
    spec = importlib.util.spec_from_file_location("update", language.FOLDER / "update.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def accented(sentence: str) -> str:
    """Return a sentence with accents, and with its fields."""
    parts = FIELD.split(sentence)
    return "".join(part if FIELD.fullmatch(part) else part.translate(ACCENTS) for part in parts)


def write_pseudo_language(folder: Path) -> None:
    """Write a complete catalogue of this language below a folder of languages."""
    catalogue = Catalog(locale=CODE, domain=language.DOMAIN)
    for message in update_script().collect():
        if message.id:
            one_or_more = message.id
            texts = accented(one_or_more) if isinstance(one_or_more, str) else tuple(map(accented, one_or_more))
            catalogue.add(one_or_more, texts)
    path = folder / CODE / "LC_MESSAGES" / f"{language.DOMAIN}.mo"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        write_mo(file, catalogue)
