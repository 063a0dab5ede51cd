"""Translate the sentences of window and command line. English is the language of the source.

Every sentence that users read goes through `tr` or `tr_plural`; one that is written before the language is known, as
in a table, through `tr_noop` and later `tr`. The catalogues are in `resources/translations`; CONTRIBUTING.md says how
to add one.

Nothing is translated until `use` chooses a language. Supervisors and training processes never choose one, so they
write English into a run's directory. Window and command line translate it with `tr_stored` when they show it.
"""

from __future__ import annotations

import contextlib
import re
import struct
from functools import lru_cache
from pathlib import Path

TYPE_CHECKING = False  # without importing `typing`: training processes load this
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
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


@contextlib.contextmanager
def in_english() -> Iterator[None]:
    """Speak English within the block: for sentences that are stored, which `tr_stored` translates when shown."""
    before = current()
    use(ENGLISH)
    try:
        yield
    finally:
        use(before)


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
_COLON = re.compile(r":(?:\s|$)")
_PUNCTUATION = re.compile(r"[.!?:…]")
_UNIT = re.compile(r" [kMGT]?B\b")
"""With a space between two fields, the first does not end between a number and its unit."""
_MIN_LETTERS = 3
"""Letters outside its fields that a template needs: one with fewer would fit everything."""
_MIN_LETTERS_OF_SENTENCE = 8
"""Letters that a template between two fields needs to be a sentence."""
_MAX_CHARACTERS = 8_000
"""Characters of a text up to which it is compared with templates."""
_MAX_ENDS = 20
"""Places that are tried for the end of a value that is in the template twice."""
_MAX_SENTENCES = 20
"""Sentences of a text up to which sequences of them are tried."""
_NESTED = 2
"""Depth up to which the values of a template are translated too."""


def tr_stored(text: str) -> str:
    """Return a text of a run's directory in the language in use.

    Such a text was written in English and with its values filled in. It is compared with every template of the
    catalogue: as a whole, then in sequences of sentences. What no template fits stays as it is.
    """
    return text if _chosen is None or len(text) > _MAX_CHARACTERS else _translate_stored(text)


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
    if text.endswith(":") and (phrase := _fit(text[:-1], depth)) is not None:
        return tr("{phrase}:", phrase=phrase)
    is_sentence = text.endswith((".", "!", "?"))
    for template in _templates():
        if (template.is_part and depth == _NESTED) or (template.is_phrase and is_sentence):
            continue
        found = template.values(text)
        if found is None or (template.is_phrase and any(_COLON.search(value) for value in found.values())):
            continue
        if not any(map(str.isdigit, found.get("count", "1"))):  # `No space left on device` is no `{count} device`
            continue
        values = {
            name: (value, False) if not depth or _is_name(name, value) else _translate_sentences(value, depth - 1)
            for name, value in found.items()
        }
        # A value of several sentences that are no value of any template has swallowed the text's own.
        if all(complete or not _END_OF_SENTENCE.search(value) for value, complete in values.values()):
            return _filled(template.translated, {name: value for name, (value, _) in values.items()})
    return None


def _is_name(field: str, value: str) -> bool:
    """Return whether a value is a name that a user or a program chose, even where it is a word of the catalogue."""
    return field in _FIELDS_OF_NAMES and " " not in value


_FIELDS_OF_NAMES = frozenset(
    {
        "id",
        "metric",
        "module",
        "name",
        "names",
        "package",
        "path",
        "program",
        "recipe",
        "run",
        "shown",
        "source",
        "spec",
    }
)


def _filled(template: str, values: Mapping[str, str]) -> str:
    """Fill in values that are formatted already."""
    return _FIELD.sub(lambda field: values.get(field[1], field[0]) if field[1] else field[0][0], template)


class _Template:
    """A sentence of the catalogue, with which stored texts are compared."""

    def __init__(self, template: str, translated: str) -> None:
        literal = _FIELD.sub("", template)
        letters = sum(map(str.isalpha, literal))
        self._texts, self._names = _taken_apart(template)
        self.translated = translated
        self.is_usable = letters >= _MIN_LETTERS
        self.is_part = template.startswith("{") and template.endswith("}") and letters < _MIN_LETTERS_OF_SENTENCE
        """Whether only a part of a sentence is compared with it, as `{first} and {final}` would fit too much."""
        self.is_phrase = not _PUNCTUATION.search(literal)
        """Whether a sentence is not compared with it: `Worker {rank}` would fit any that begins with this word."""
        self.specific = (not self._names, letters, len(literal))
        """By which templates are sorted: those with more of their own text come first."""

    def values(self, text: str) -> dict[str, str] | None:
        """Return the values of the fields in a text that was made from this template; None if it was not.

        Each value is as short as possible, from the first on. The time is in proportion to the length of the text: a
        regular expression with as many fields takes hours for a text that was written to that end.
        """
        first, last = self._texts[0], self._texts[-1]
        if not self._names:
            return {} if text == first else None
        stop = len(text) - len(last)
        if stop < len(first) or not text.startswith(first) or not text.endswith(last):
            return None
        return self._values(text, 0, len(first), stop, {})

    def _values(self, text: str, number: int, at: int, stop: int, known: dict[str, str]) -> dict[str, str] | None:
        """Return the values from the field of this number on, which begins at `at`, with those that are known."""
        if number == len(self._names):
            return known if at == stop else None
        name, following = self._names[number], self._texts[number + 1]
        if number + 1 == len(self._names):
            following = ""  # it is at the end of the text
        for end in self._ends(text, number, at, stop, known):
            value = text[at:end]
            if known.get(name, value) == value:
                found = self._values(text, number + 1, end + len(following), stop, {**known, name: value})
                if found is not None:
                    return found
        return None

    def _ends(self, text: str, number: int, at: int, stop: int, known: Mapping[str, str]) -> Iterator[int]:
        """Yield where the value of a field may end: at the first place, but at several for one that comes again."""
        name, following = self._names[number], self._texts[number + 1]
        if number + 1 == len(self._names):
            yield stop
        elif name in known:
            end = at + len(known[name])
            if text.startswith(following, end, stop):
                yield end
        else:
            left = _MAX_ENDS if name in self._names[number + 1 :] else 1
            end = text.find(following, at, stop)
            while end >= 0 and left:
                if following != " " or not _UNIT.match(text, end):
                    yield end
                    left -= 1
                end = text.find(following, end + 1, stop)


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


def _taken_apart(template: str) -> tuple[list[str], list[str]]:
    """Return the texts before, between and after the fields of a template, and the names of the fields."""
    texts, names, last = [""], [], 0
    for field in _FIELD.finditer(template):
        texts[-1] += template[last : field.start()]
        last = field.end()
        if field[1]:
            names.append(field[1])
            texts.append("")
        else:
            texts[-1] += field[0][0]
    texts[-1] += template[last:]
    return texts, names


def _identifiers(catalogue: Path) -> list[str]:
    """Return all sentences of a compiled catalogue, plural forms behind a zero byte.

    The `gettext` module has no function for this. The format: https://www.gnu.org/software/gettext/manual/html_node/MO-Files.html
    """
    data = catalogue.read_bytes()
    order = "<" if data[:4] == b"\xde\x12\x04\x95" else ">"
    count, table = struct.unpack_from(f"{order}8xII", data)
    spans = (struct.unpack_from(f"{order}II", data, table + 8 * number) for number in range(count))
    return [data[start : start + length].decode() for length, start in spans if length]
