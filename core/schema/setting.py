"""How a setting is described: once, in the metadata of its field.

Everything else is made from this row: the check of a value, the option of the command line and of the shell command,
the field in the window, the row under "Settings", the list in `docs/settings.md`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..language import tr, tr_noop

if TYPE_CHECKING:
    from collections.abc import Mapping

RECIPE = "recipe"
"""In `Setting.only`: all recipes, and no script."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    minimum: int
    maximum: int | None = None
    metavar: str = "N"
    read: ClassVar[type] = int
    """Turns a word of the command line into a value."""

    def remedy(self, value: object) -> str:
        """Return what to give in place of this value, as a sentence; the empty string if the value can be."""
        if isinstance(value, int) and not isinstance(value, bool) and self.minimum <= value <= (self.maximum or value):
            return ""
        if self.maximum is None:
            return tr("Give a whole number of at least {minimum}.", minimum=self.minimum)
        return tr("Give a whole number from {minimum} to {maximum}.", minimum=self.minimum, maximum=self.maximum)

    def words(self, value: Any) -> str:  # noqa: ANN401 (checked by `remedy`)
        """Return a value as users read it."""
        return str(value)


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number above 0, or from 0 on."""

    zero: bool = False
    """Whether 0 is a value, too."""
    metavar: str = "X"
    read: ClassVar[type] = float

    def remedy(self, value: object) -> str:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and (0 < value <= sys.float_info.max or (self.zero and value == 0)):  # type: ignore[operator]
            return ""
        return tr("Give a number of at least 0.") if self.zero else tr("Give a number greater than 0.")

    def words(self, value: Any) -> str:  # noqa: ANN401
        return f"{value:g}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some texts. `titles`: what users read for each."""

    titles: Mapping[str, str]
    metavar: ClassVar[None] = None
    read: ClassVar[type] = str

    def remedy(self, value: object) -> str:
        is_known = isinstance(value, str) and value in self.titles
        return "" if is_known else tr("Choose one of: {known}.", known=", ".join(self.titles))

    def words(self, value: Any) -> str:  # noqa: ANN401
        return tr(self.titles.get(value, value))


@dataclass(frozen=True, slots=True)
class Flag:
    """On or off."""

    metavar: ClassVar[None] = None
    read: ClassVar[type] = bool

    def remedy(self, value: object) -> str:
        return "" if isinstance(value, bool) else tr("Give true or false.")

    def words(self, value: Any) -> str:  # noqa: ANN401
        return tr("on") if value else tr("off")


Kind = Whole | Number | OneOf | Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `settings_of` fills in the name, which is that of the field."""

    kind: Kind
    title: str
    """What it is called, with its unit, everywhere but on the command line."""
    help: str
    """What it does: a phrase without a capital letter and a full stop."""
    group: str
    """The heading above it in the window and in the help of the command line, as a phrase."""
    default: Any
    script_default: Any
    none: str
    """What None means; the empty string where None is no value."""
    only: tuple[str, ...]
    """What has it: `recipe`, frameworks, or strategies such as `pytorch.ddp`; empty for everything."""
    option: str | None
    """The option of the command line without its dashes, where it is not that of the name; None: it has none."""
    name: str = ""

    @property
    def flag(self) -> str:
        """The option of the command line; the empty string if it has none of its own."""
        return "" if self.option is None else f"--{self.option or self.name.replace('_', '-')}"

    @property
    def attribute(self) -> str:
        """Where argparse keeps the value of the option."""
        return self.flag[2:].replace("-", "_")

    def is_for(self, framework: str, strategy: str = "") -> bool:
        """Whether this framework and strategy have it; `script` is the framework of a script."""
        kind = framework if framework == "script" else RECIPE
        return not self.only or not {kind, framework, f"{framework}.{strategy}"}.isdisjoint(self.only)

    def words(self, value: object) -> str:
        """Return a value as users read it, in the language in use."""
        return tr(self.none or tr_noop("none")) if value is None else self.kind.words(value)

    @property
    def default_words(self) -> str:
        """The default as users read it, and that for scripts where it is another one."""
        usual = self.words(self.default)
        if self.script_default == self.default:
            return usual
        return tr("{usual}; script: {script}", usual=usual, script=self.words(self.script_default))

    def check(self, value: object, name: str = "") -> None:
        """Raise `ValueError` with a sentence unless this can be its value. `name`: in place of its title."""
        if value is not None or not self.none:
            check_value(name or tr("The setting “{title}”", title=tr(self.title)), self.kind, value)


def setting(
    default: object, kind: Kind, *, title: str, help: str, group: str,  # noqa: A002 (as in argparse)
    none: str = "", only: tuple[str, ...] = (), option: str | None = "", script_default: object = None,
) -> Any:  # noqa: ANN401 (the type of the field is in its annotation)
    """Return a field of a dataclass that is a setting: see `Setting`."""
    row = Setting(
        kind=kind, title=title, help=help, group=group, none=none, only=only, option=option, default=default,
        script_default=default if script_default is None else script_default,
    )
    return field(default=default, metadata={"setting": row})


def settings_of(owner: type) -> Mapping[str, Setting]:
    """Return the settings among the fields of a dataclass by name, in their order."""
    if owner not in _known:
        rows = {item.name: item.metadata["setting"] for item in fields(owner) if "setting" in item.metadata}
        _known[owner] = {name: replace(row, name=name) for name, row in rows.items()}
    return _known[owner]


_known: dict[type, Mapping[str, Setting]] = {}
"""What `settings_of` has returned: a list of runs reads many specs."""


def check_settings(values: object) -> None:
    """Raise `ValueError` with a sentence for the first setting of a dataclass that has an impossible value."""
    for name, row in settings_of(type(values)).items():
        row.check(getattr(values, name))


def check_value(name: str, kind: Kind, value: object) -> None:
    """Raise `ValueError` with a sentence that begins with this name unless this can be a value of this kind."""
    if remedy := kind.remedy(value):
        raise ValueError(tr("{name} is {value!r}. {remedy}", name=name, value=value, remedy=remedy))
