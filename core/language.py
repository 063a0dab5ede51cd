"""Translate the sentences of window and command line. English is the language of the source.

Every sentence that users read goes through `tr` or `tr_plural`; one that is written before the language is known, as
in a table, through `tr_noop` and later `tr`. The catalogues are in `resources/translations`; CONTRIBUTING.md says how
to add one.

Nothing is translated until `use` chooses a language. Supervisors and training processes never choose one, so they
write English into a run's directory. Window and command line translate it with `tr_stored` when they show it.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from pathlib import Path

TYPE_CHECKING = False  # without importing `typing`: training processes load this
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from gettext import GNUTranslations

DOMAIN = "trainyard"
FOLDER = Path(__file__).parents[1] / "resources" / "translations"
ENGLISH = "en"
VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
"""The environment variables that name the language, as gettext reads them."""

_chosen: GNUTranslations | None = None
_chosen_code = ENGLISH


# -- the language ------------------------------------------------------------------------------------


def available() -> dict[str, str]:
    """Return the names of all languages by code, each in its own words: `{"en": "English", "zh_CN": "简体中文"}`."""
    found = {ENGLISH: "English"}
    for catalogue in sorted(FOLDER.glob(f"*/LC_MESSAGES/{DOMAIN}.mo")):
        code = catalogue.parents[1].name
        # Translators: give the name of your own language in place of "English".
        found[code] = _load(code).gettext(tr_noop("English"))
    return found


def from_environment(environment: Mapping[str, str]) -> str:
    """Return the code of the first language that the environment asks for and that there is; else English."""
    asked = next((environment[name] for name in VARIABLES if environment.get(name)), "")
    known = [path.parents[1].name for path in FOLDER.glob(f"*/LC_MESSAGES/{DOMAIN}.mo")]
    for each in asked.split(":"):
        code = each.split(".")[0].split("@")[0]
        if code.split("_")[0] in {ENGLISH, "C", "POSIX"}:
            return ENGLISH
        # `zh` and `zh_SG` have the script of `zh_CN`; `zh_TW` and `zh_HK` have another one.
        same_script = [name for name in known if name.split("_")[0] == code.split("_")[0]]
        if code in known:
            return code
        if same_script and code not in {"zh_TW", "zh_HK", "zh_MO"} and not code.startswith("zh_Hant"):
            return same_script[0]
    return ENGLISH


def use(code: str) -> None:
    """Translate into a language of `available` from now on. Raises `ValueError` if there is no such language."""
    global _chosen, _chosen_code  # noqa: PLW0603 (a process speaks one language)
    try:
        _chosen = None if code == ENGLISH else _load(code)
    except OSError:
        names = ", ".join(available())
        message = tr("There is no translation into {code!r}. Choose one of: {names}.", code=code, names=names)
        raise ValueError(message) from None
    _chosen_code = code
    _translate_stored.cache_clear()
    _templates.cache_clear()


def current() -> str:
    """Return the code of the language in use."""
    return _chosen_code


def _load(code: str) -> GNUTranslations:
    import gettext

    return gettext.translation(DOMAIN, FOLDER, [code])


# -- sentences of this process -----------------------------------------------------------------------


def tr(sentence: str, /, **values: object) -> str:
    """Return a sentence in the language in use, with values for its fields, as `str.format` fills them in."""
    translated = sentence if _chosen is None or not sentence else _chosen.gettext(sentence)
    return translated.format(**values) if values else translated


def tr_plural(one: str, many: str, /, count: int, **values: object) -> str:
    """Return the sentence for a number of things, which is its field `count`, by the language's plural rules."""
    english = one if count == 1 else many
    translated = english if _chosen is None else _chosen.ngettext(one, many, count)
    return translated.format(count=count, **values)


def join_sentences(sentences: Iterable[str | None]) -> str:
    """Return sentences in one text, with spaces between them where the script has such; None and "" are left out."""
    result = ""
    for sentence in filter(None, sentences):
        result += (_space_after(result, " ") if result else "") + sentence
    return result


def _space_after(text: str, space: str) -> str:
    """Return the space that follows a text: none after Chinese punctuation, which has room of its own."""
    return "" if text.endswith(_WITH_ROOM) and space == " " else space


_WITH_ROOM = tuple("。！？；：，、）")


def tr_noop(sentence: str) -> str:
    """Return the sentence as it is, and have it collected for translation: it is shown through `tr` later."""
    return sentence


# -- sentences that other processes wrote ------------------------------------------------------------

_FIELD = re.compile(r"\{\{|\}\}|\{(\w*)[^{}]*\}")
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?:;…])(\s+)")
_END_OF_SENTENCE = re.compile(r"[.!?…]\s")
_PUNCTUATION = re.compile(r"[.!?:…]")
_NO_UNIT = r"(?! [kMGT]?B\b)"
"""Between two fields: the first does not end between a number and its unit."""
_MIN_LETTERS = 3
"""Letters outside its fields that a template needs: one with fewer would fit everything."""
_MIN_LETTERS_OF_SENTENCE = 8
"""Letters that a template between two fields needs to be a sentence."""
_MAX_SENTENCES = 20
"""Sentences of a text up to which sequences of them are tried."""
_NESTED = 2
"""Depth up to which the values of a template are translated too."""


def tr_stored(text: str) -> str:
    """Return a text of a run's directory in the language in use.

    Such a text was written in English and with its values filled in. It is compared with every template of the
    catalogue: as a whole, then in sequences of sentences. What no template fits stays as it is.
    """
    return text if _chosen is None else _translate_stored(text)


@lru_cache(maxsize=4096)
def _translate_stored(text: str) -> str:
    return _translate_sentences(text, _NESTED)[0]


def _translate_sentences(text: str, depth: int) -> tuple[str, bool]:
    """Return the text with all that a template fits translated, and whether that is all of it."""
    parts = _BETWEEN_SENTENCES.split(text)  # sentence, space, sentence, ...
    if len(parts) > 2 * _MAX_SENTENCES:
        return text, False
    result, start, complete = "", 0, True
    while start < len(parts):
        # Several sentences may be one template, so the longest sequence that fits is taken.
        for end in range(len(parts), start, -2):
            piece = "".join(parts[start:end])
            fitted = _fit(piece, depth)
            if fitted is not None or end == start + 1:
                result += piece if fitted is None else fitted
                result += _space_after(result, parts[end]) if end < len(parts) else ""
                complete = complete and fitted is not None
                start = end + 1
                break
    return result, complete


def _fit(text: str, depth: int) -> str | None:
    """Return the translation by the template that fits the whole text; None if none does."""
    is_sentence = text.endswith((".", "!", "?"))
    for template in _templates():
        if (template.is_part and depth == _NESTED) or (template.is_phrase and is_sentence):
            continue
        match = template.pattern.fullmatch(text)
        if match is None:
            continue
        values = [_translate_sentences(value, depth - 1) if depth else (value, False) for value in match.groups()]
        # A value of several sentences that are no value of any template has swallowed the text's own.
        if all(complete or not _END_OF_SENTENCE.search(value) for value, complete in values):
            return _filled(template.translated, dict(zip(template.names, (value for value, _ in values), strict=True)))
    return None


def _filled(template: str, values: Mapping[str, str]) -> str:
    """Fill in values that are formatted already."""
    return _FIELD.sub(lambda field: values.get(field[1], field[0]) if field[1] else field[0][0], template)


class _Template:
    """A sentence of the catalogue, with which stored texts are compared."""

    def __init__(self, template: str, translated: str) -> None:
        literal = _FIELD.sub("", template)
        letters = sum(map(str.isalpha, literal))
        self.pattern, self.names = _pattern(template)
        """With the names of its groups."""
        self.translated = translated
        self.is_usable = letters >= _MIN_LETTERS
        self.is_part = template.startswith("{") and template.endswith("}") and letters < _MIN_LETTERS_OF_SENTENCE
        """Whether only a part of a sentence is compared with it, as `{first} and {final}` would fit too much."""
        self.is_phrase = not _PUNCTUATION.search(literal)
        """Whether a sentence is not compared with it: `Worker {rank}` would fit any that begins with this word."""
        self.specific = (not self.names, letters, len(literal))
        """By which templates are sorted: those with more of their own text come first."""


@lru_cache(maxsize=1)
def _templates() -> list[_Template]:
    """Return all templates of the catalogue, the most specific first."""
    assert _chosen is not None
    rows = []
    for identifier in _identifiers(FOLDER / _chosen_code / "LC_MESSAGES" / f"{DOMAIN}.mo"):
        one, *many = identifier.split("\0")
        rows.append((one, _chosen.ngettext(one, many[0], 1) if many else _chosen.gettext(one)))
        rows += [(each, _chosen.ngettext(one, each, 2)) for each in many]
    found = [_Template(template, translated) for template, translated in rows]
    return sorted((each for each in found if each.is_usable), key=lambda each: each.specific, reverse=True)


def _pattern(template: str) -> tuple[re.Pattern[str], list[str]]:
    pattern, names, last = "", [], 0
    for field in _FIELD.finditer(template):
        pattern += re.escape(template[last : field.start()])
        last = field.end()
        if not field[1]:
            pattern += re.escape(field[0][0])
        elif field[1] in names:
            pattern += f"(?P={field[1]})"
        else:
            names.append(field[1])
            pattern += f"(?P<{field[1]}>.*?)"  # a part that is left out is empty
            if template.startswith(" {", last):
                pattern += _NO_UNIT
    return re.compile(pattern + re.escape(template[last:]), re.DOTALL), names


def _identifiers(catalogue: Path) -> list[str]:
    """Return all sentences of a compiled catalogue, plural forms behind a zero byte.

    The `gettext` module has no function for this. The format: https://www.gnu.org/software/gettext/manual/html_node/MO-Files.html
    """
    data = catalogue.read_bytes()
    order = "<" if data[:4] == b"\xde\x12\x04\x95" else ">"
    count, table = struct.unpack_from(f"{order}8xII", data)
    spans = (struct.unpack_from(f"{order}II", data, table + 8 * number) for number in range(count))
    return [data[start : start + length].decode() for length, start in spans if length]
