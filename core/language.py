"""Translate the sentences of window and command line. English is the language of the source.

Every sentence that users read goes through `tr` or `tr_plural`; one that is written before the language is known, as
in a table, through `tr_noop` and later `tr`. The catalogues are in `resources/translations`; CONTRIBUTING.md says how
to add one.

A sentence is a `Message`: a text that keeps its template and its values. As JSON, it has these beside its English text,
so that a window or a command that reads it later can show it in its own language.

Nothing is translated until `use` chooses a language; supervisors and training processes never choose one.
Also loaded inside workers: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

from pathlib import Path

TYPE_CHECKING = False  # without importing `typing`: training processes load this
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from gettext import GNUTranslations
    from typing import Any

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


def current() -> str:
    """Return the code of the language in use."""
    return _chosen_code


def _load(code: str) -> GNUTranslations:
    import gettext

    return gettext.translation(DOMAIN, FOLDER, [code])


# -- sentences ---------------------------------------------------------------------------------------

MAX_TEXT = 20_000
"""Characters of a value that are read from a file."""
MAX_PARTS = 1000
"""Parts of a joined text that are read from a file; of more, only the text is."""
MAX_DEPTH = 12
"""Messages within messages up to which they are read from a file: a list of names has one for each name."""


class Message(str):
    """A sentence with the template and the values that it was made of.

    As a `str` it is in the language that was in use when it was made; in English if it was read from a file. `tr`
    returns it in the language in use. What only has a text, such as what another program says, has no template.
    """

    __slots__ = ("_english", "say", "values")
    say: tuple[str, ...]
    """The template; or those for one and for many, by the value `count`; or what separates the parts of a text."""
    values: Mapping[str, Any] | tuple[str, ...]
    """The values by their names; or the parts."""
    _english: str | None

    def __new__(
        cls, text: str, say: tuple[str, ...] = (), values: Mapping[str, Any] | tuple[str, ...] = (),
        english: str | None = None,
    ) -> Message:
        """`english`: None if it is to be made from the template when it is needed, with the values as texts."""
        made = super().__new__(cls, text)
        made.say, made.values, made._english = say, values, english
        return made

    def __str__(self) -> Message:
        """Return itself, so that `str(error)` is the message of the error."""
        return self

    @property
    def english(self) -> str:
        """Its text in English."""
        if self._english is None:
            self._english = _text(self, None) if self.say else str.__str__(self)
        return self._english

    @property
    def sentences(self) -> list[Message]:
        """The messages that it was joined of, in order; itself if it was not joined."""
        parts = self.values if isinstance(self.values, tuple) else ()
        return [each for part in parts for each in Message.read(part).sentences] if parts else [self]

    def texts(self) -> Iterator[str]:
        """Yield every text that it may show, in whatever language."""
        yield self.english
        yield from self.say
        for each in self.values if isinstance(self.values, tuple) else self.values.values():
            if isinstance(plain := _plain(each), str):
                yield from Message.read(plain).texts()

    def within(self, length: int) -> Message:
        """Return itself if its texts together are not much longer than this; else its English text alone, cut."""
        if sum(map(len, self.texts())) <= 4 * length and len(self.english) <= length:
            return self
        return Message(self.english[:length])

    def named(self, field: str) -> str:
        """Return a value of the template as a text; the empty string if it has none of this name."""
        return str(self.values.get(field, "")) if isinstance(self.values, dict) else ""

    def to_json(self) -> Any:  # noqa: ANN401 (JSON)
        """Return what `read` reads: an object with the English text, or the text alone if there is no template."""
        if not self.say:
            return self.english
        if isinstance(self.values, tuple):
            return {"text": self.english, "join": [stored(_plain(each)) for each in self.values], "by": self.say[0]}
        many = {"many": self.say[1]} if len(self.say) > 1 else {}
        values = {name: stored(_plain(each)) for name, each in self.values.items()}
        return {"text": self.english, "say": self.say[0], **many, "with": values} if values else {"say": self.say[0]}

    @classmethod
    def read(cls, data: object, depth: int = MAX_DEPTH) -> Message:
        """Return a message from its JSON. Raises `ValueError` for anything else. Nothing is trusted."""
        if isinstance(data, Message):
            return data
        if isinstance(data, str):
            return cls(data)
        if not isinstance(data, dict):
            raise ValueError(data)  # noqa: TRY004 (the content is wrong, not the caller)
        say, many, values, parts = (data.get(name) for name in ("say", "many", "with", "join"))
        text = data.get("text", say)
        if not isinstance(text, str):
            raise ValueError(data)  # noqa: TRY004
        if depth and isinstance(parts, list) and len(parts) <= MAX_PARTS:
            return cls(text, (str(data.get("by")),), tuple([str(_value(each, depth)) for each in parts]), text)
        known = {str(name): _value(each, depth) for name, each in values.items()} if isinstance(values, dict) else {}
        if not depth or not isinstance(say, str) or (text != say and not known):
            return cls(text)
        return cls(text, (say, many) if isinstance(many, str) else (say,), known, text)


def stored(value: object) -> Any:  # noqa: ANN401 (JSON)
    """Return a value as it is stored as JSON: a message as `Message.read` reads it, others as they are."""
    return value.to_json() if isinstance(value, Message) else value


def _plain(value: object) -> object:
    """Return a value of a template as a number, a text, or a message, which an error has, too."""
    return value if isinstance(value, (int, float, type(None))) else str(value)


def _value(data: object, depth: int) -> object:
    if isinstance(data, dict):
        return Message.read(data, depth - 1) if depth else ""
    return Message(data[:MAX_TEXT]) if isinstance(data, str) else _plain(data)


def _text(message: Message, catalogue: GNUTranslations | None) -> str:
    """Return the text of a message with a template. Raises what `str.format` raises for values that do not fit."""

    def shown(value: object) -> Any:  # noqa: ANN401 (a value of a template)
        value = _plain(value)
        return (value.english if catalogue is None else tr(value)[:MAX_TEXT]) if isinstance(value, Message) else value

    if isinstance(message.values, tuple):
        return _joined(map(shown, message.values), _template(message.say, 1, catalogue))
    template = _template(message.say, message.values.get("count"), catalogue)
    values = {name: shown(each) for name, each in message.values.items()}
    return template.format(**values) if values else template


def _template(say: tuple[str, ...], count: Any, catalogue: GNUTranslations | None) -> str:  # noqa: ANN401
    if len(say) == 1:
        return say[0] if catalogue is None or not say[0] else catalogue.gettext(say[0])
    return catalogue.ngettext(say[0], say[1], count) if catalogue is not None else say[0] if count == 1 else say[1]


def tr(sentence: str, /, **values: object) -> str:
    """Return a sentence in the language in use, with values for its fields, as `str.format` fills them in.

    A message that was made before, or read from a file, is translated again.
    """
    if isinstance(sentence, Message):
        return _translated(sentence)
    template = sentence if _chosen is None or not sentence else _chosen.gettext(sentence)
    text = template.format(**values) if values else template
    return Message(text, (sentence,), values, text if _chosen is None else None)


def tr_plural(one: str, many: str, /, count: int, **values: object) -> str:
    """Return the sentence for a number of things, which is its field `count`, by the language's plural rules."""
    values["count"] = count
    text = _template((one, many), count, _chosen).format(**values)
    return Message(text, (one, many), values, text if _chosen is None else None)


def _translated(message: Message) -> Message:
    """Return a message in the language in use; in English if its template is in no catalogue, as it may be anything."""
    text, say, values = message.english, message.say, message.values
    if _chosen is not None and say:
        try:
            template = "" if isinstance(values, tuple) else _template(say, values.get("count"), _chosen)
            # `gettext` returns this very object where the catalogue does not have it.
            if all(template is not each for each in say):
                text = _text(message, _chosen)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            pass  # the values are not those of the template
    return Message(text, say, values, message.english)


def join_sentences(sentences: Iterable[str | None]) -> str:
    """Return sentences in one text, with spaces between them where the script has such; None and "" are left out."""
    return join(sentences, " ")


def join(texts: Iterable[str | None], separator: str) -> str:
    """Return texts in one, with a separator between them, which is translated; None and "" are left out."""
    parts = tuple(filter(None, texts))
    return Message(_joined(parts, _template((separator,), 1, _chosen)), (separator,), parts) if parts else ""


def _joined(parts: Iterable[str], separator: str) -> str:
    result = ""
    for part in parts:
        # Chinese punctuation has room of its own.
        result += part if not result or (separator == " " and result.endswith(_WITH_ROOM)) else f"{separator}{part}"
    return result


_WITH_ROOM = tuple("。！？；：，、）")


def tr_noop(sentence: str) -> str:
    """Return the sentence as it is, and have it collected for translation: it is shown through `tr` later."""
    return sentence
