"""Read frozen dataclasses from JSON, field by field, and write them. Nothing that is read is trusted.

The annotation of a field says what its JSON value has to be:

    str, bool, int, float        a text, true or false, a number; NaN, infinity and numbers without end are refused
    tuple[X, ...], tuple[X, Y]   a list
    Mapping[str, X]              an object
    X | None                     also null
    an `Enum`                    one of its values
    a `NamedTuple`               a list of its fields
    `Sentence`                   a `core.language.Message`, or a text
    another dataclass            an object; by its own `from_json` and `to_json` if it has them
    anything else                anything: the class checks it

A field with a default may be missing, and what a class does not know is ignored. Bounds of values are checked by the
class itself, in `__post_init__`. `field(metadata=named("id"))` is a field with another name in JSON,
`rare(default=None)` one that is left out of it while it has its default.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable
from dataclasses import MISSING, field, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from ..language import Message, tr, tr_noop

Record = TypeVar("Record")
Sentence = Annotated[str, Message]
"""A sentence that is stored with its template and its values, to be shown in the language of its reader."""
MAX_WHOLE = 2**63
"""Whole numbers from here on fit into no column."""
MAX_FLOAT = sys.float_info.max


class Limits(NamedTuple):
    """How much is kept of what is longer."""

    text: int = sys.maxsize
    """Characters of a text, and of a name in an object."""
    items: int = sys.maxsize
    """Items of a list or an object."""


ALL = Limits()
_Read = Callable[[Any, str, Limits], Any]


class _Row(NamedTuple):
    """A field of a class."""

    name: str
    key: str
    """Its name in JSON."""
    is_needed: bool
    read: _Read


def named(key: str) -> dict[str, str]:
    """Return the metadata of a field that has another name in JSON."""
    return {"key": key}


def rare(*, default: Any) -> Any:  # noqa: ANN401 (the type of the field)
    """Return a field that is left out of JSON while it has its default."""
    return field(default=default, metadata={"is_rare": True})


def decode(kind: type[Record], data: object, limits: Limits = ALL, **given: Any) -> Record:  # noqa: ANN401 (values of fields)
    """Return a record from its JSON object. `given`: fields that do not come from there.

    Raises `ValueError` with a sentence that names the field, such as `training.epochs`, or with that of the class.
    """
    if not isinstance(data, dict):
        raise ValueError(tr("It is not a JSON object."))  # noqa: TRY004 (the content is wrong, not the caller)
    return _record(kind, data, "", limits, given)


def encode(record: object) -> dict[str, Any]:
    """Return a record as the JSON object that `decode` reads."""
    return {
        each.metadata.get("key", each.name): _plain(getattr(record, each.name), "Sentence" in str(each.type))
        for each in fields(record)  # type: ignore[arg-type]  # always one of our dataclasses
        if not each.metadata.get("is_rare") or getattr(record, each.name) != each.default
    }


def _plain(value: Any, has_messages: bool) -> Any:  # noqa: ANN401 (JSON)
    if isinstance(value, (list, tuple)):
        return [_plain(each, has_messages) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each, has_messages) for name, each in value.items()}
    if has_messages and isinstance(value, Message):
        return value.to_json()
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return value.to_json() if hasattr(value, "to_json") else encode(value)
    return value


# -- by annotation -------------------------------------------------------------------------------


def _record(kind: type[Record], data: dict[str, Any], within: str, limits: Limits, given: dict[str, Any]) -> Record:
    """Return a record. `within`: the name of the field that holds the object, with a dot; or empty."""
    rows = [row for row in _rows(kind) if row.name not in given]  # type: ignore[arg-type]  # a class is hashable
    if missing := [within + row.key for row in rows if row.is_needed and row.key not in data]:
        raise ValueError(tr("It lacks {missing}.", missing=", ".join(missing)))
    found = {row.name: row.read(data[row.key], within + row.key, limits) for row in rows if row.key in data}
    return kind(**found, **given)


@lru_cache(maxsize=None)  # noqa: UP033 (one row for each class)
def _rows(kind: type) -> tuple[_Row, ...]:
    types = get_type_hints(kind, localns={"Mapping": dict}, include_extras=True)
    return tuple(
        _Row(
            name=each.name, key=each.metadata.get("key", each.name), read=_reader(types[each.name]),
            is_needed=each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(kind)
    )


def _reader(kind: Any) -> _Read:  # noqa: ANN401 (an annotation)
    """Return what reads a value of an annotation, given the name of the field and the limits."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _sentence if Message in inside else _reader(inside[0])
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin is tuple:
        return _list_reader(*inside)
    if origin is dict:
        return _object_reader(inside[1])
    if len(inside) == 2 and inside[1] is type(None):
        reader = _reader(inside[0])
        return lambda value, name, limits: None if value is None else reader(value, name, limits)
    return _class_reader(kind) if isinstance(kind, type) else _anything


def _class_reader(kind: Any) -> _Read:  # noqa: ANN401 (a class)
    if issubclass(kind, tuple):
        as_list = _list_reader(*get_type_hints(kind).values())
        return lambda value, name, limits: kind(*as_list(value, name, limits))
    if issubclass(kind, Enum):
        return _enum_reader(kind)
    return _record_reader(kind) if is_dataclass(kind) else _anything


def _text(value: Any, name: str, limits: Limits) -> str:  # noqa: ANN401 (JSON, as in what follows)
    if not isinstance(value, str):
        raise _wrong(name, value, tr_noop("a text"))
    return value[: limits.text]


def _sentence(value: Any, name: str, limits: Limits) -> str:  # noqa: ANN401
    try:
        return Message.read(value).within(limits.text)
    except ValueError:
        raise _wrong(name, value, tr_noop("a text")) from None


def _flag(value: Any, name: str, _: Limits) -> bool:  # noqa: ANN401
    if type(value) is not bool:
        raise _wrong(name, value, tr_noop("true or false"))
    return value


def _whole(value: Any, name: str, _: Limits) -> int:  # noqa: ANN401
    if type(value) is not int or not -MAX_WHOLE < value < MAX_WHOLE:
        raise _wrong(name, value, tr_noop("a whole number"))
    return value


def _number(value: Any, name: str, _: Limits) -> float:  # noqa: ANN401
    if type(value) not in {int, float} or not -MAX_FLOAT <= value <= MAX_FLOAT:
        raise _wrong(name, value, tr_noop("a number"))
    return value  # type: ignore[no-any-return]


def _anything(value: Any, _name: str, _: Limits) -> Any:  # noqa: ANN401
    return value


_SCALARS: dict[object, _Read] = {str: _text, bool: _flag, int: _whole, float: _number}


def _list_reader(first: object, *others: object) -> _Read:
    readers = [_reader(each) for each in (first, *others) if each is not Ellipsis]
    expected = tr_noop("a list of texts") if first is str else tr_noop("a list")

    def read(value: Any, name: str, limits: Limits) -> tuple[Any, ...]:  # noqa: ANN401
        if not isinstance(value, (list, tuple)) or (others != (Ellipsis,) and len(value) != len(readers)):
            raise _wrong(name, value, expected)
        if first is str and not all(isinstance(each, str) for each in value):
            raise _wrong(name, value, expected)
        kept = value[: limits.items]
        each_of = readers * len(kept) if others == (Ellipsis,) else readers
        return tuple([reader(each, name, limits) for reader, each in zip(each_of, kept)])  # noqa: B905 (same lengths)

    return read


def _object_reader(inside: object) -> _Read:
    reader = _reader(inside)
    expected = tr_noop("an object of texts") if inside is str else tr_noop("an object")

    def read(value: Any, name: str, limits: Limits) -> dict[str, Any]:  # noqa: ANN401
        is_object = isinstance(value, dict)
        if not is_object or (inside is str and not all(isinstance(each, str) for each in value.values())):
            raise _wrong(name, value, expected)
        return {
            _text(key, name, limits): reader(each, f"{name}.{key}", limits)
            for key, each in list(value.items())[: limits.items]
        }

    return read


def _enum_reader(kind: type[Enum]) -> _Read:
    def read(value: Any, name: str, _: Limits) -> Enum:  # noqa: ANN401
        if value not in [each.value for each in kind]:
            raise _wrong(name, value, ", ".join(str(each.value) for each in kind))
        return kind(value)

    return read


def _record_reader(kind: Any) -> _Read:  # noqa: ANN401 (a class)
    def read(value: Any, name: str, limits: Limits) -> Any:  # noqa: ANN401
        if not isinstance(value, dict):
            raise _wrong(name, value, tr_noop("an object"))
        if not hasattr(kind, "from_json"):
            return _record(kind, value, f"{name}.", limits, {})
        try:
            return kind.from_json(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    return read


def _wrong(name: str, value: object, expected: str) -> ValueError:
    shown, wanted = reprlib.repr(value), tr(expected)
    return ValueError(
        tr("Its field {name} is {value} where {expected} is expected.", name=name, value=shown, expected=wanted)
    )
