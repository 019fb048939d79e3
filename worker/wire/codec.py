"""Encodes the dataclasses of this package as JSON and decodes them again. Nothing else reads or writes their JSON.

A message between two processes carries the version number of this format (`dumps`, `loads`). A value in a database
column does not (`encode`, `decode`). A reader ignores fields it does not know, so that a media worker of another
version is still understood. It refuses a missing field or a wrong type and names the field
(`items[3].seconds is missing`).
"""

import dataclasses
import functools
import json
import math
import types
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

VERSION = 1
VERSION_FIELD = "wire"

# What `json.dumps` takes and `json.loads` returns.
JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
# A JSON object: an encoded dataclass, as a message or a JSON column holds it.
Json: TypeAlias = dict[str, JsonValue]
T = TypeVar("T")

_PLAIN = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_AS_IT_IS = {str, int, float, bool, types.NoneType}
_MOMENT = "a time with a zone, like 2026-03-29T20:15:00+00:00"


# The metadata of a field that is stored sealed (see `split`).
SECRET = {"is_secret": True}


class WireError(ValueError):
    """The JSON does not fit the dataclass. The text names the field and contains no value."""


def dumps(value: Any) -> str:
    """A message as one line of ASCII, with the version number: neither a locale nor a U+2028 in a title changes it."""
    return json.dumps(message(value), allow_nan=False)


def loads(kind: type[T], text: str | bytes) -> T:
    """The message, or WireError."""
    return read_message(kind, parse_object(text))


def message(value: Any) -> Json:
    return {VERSION_FIELD: VERSION, **encode_object(value)}


def read_message(kind: type[T], raw: Any) -> T:
    check_version(raw)
    return decode(kind, raw)


def parse_object(text: str | bytes) -> Json:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError("this is not JSON") from None
    if not isinstance(raw, dict):
        raise WireError(f"the message must be an object, not {_name_of(raw)}")
    return raw


def check_version(raw: Json) -> None:
    """Later versions are accepted; their additional fields are ignored."""
    if decode_field(int, raw, VERSION_FIELD) < 1:
        raise WireError(f"{VERSION_FIELD} must be 1 or more")


def decode_field(kind: type[T], raw: Any, name: str) -> T:
    """One field of an encoded object."""
    if not isinstance(raw, dict):
        raise WireError(f"the message must be an object, not {_name_of(raw)}")
    if name not in raw:
        raise WireError(f"{name} is missing")
    return decode(kind, raw[name], name)


def split(value: Any) -> tuple[Json, Json]:
    """The encoded fields of a dataclass: the open ones, and the ones that are stored sealed."""
    encoded = encode_object(value)
    secret = {each.name for each in dataclasses.fields(value) if each.metadata.get("is_secret")}
    is_open = {name: item for name, item in encoded.items() if name not in secret}
    return is_open, {name: encoded[name] for name in secret}


def encode_object(value: "DataclassInstance") -> Json:
    """A dataclass as a JSON object."""
    return {name: encode(getattr(value, name)) for name in _names(type(value))}


def encode(value: Any) -> JsonValue:
    """The value as JSON. Raises TypeError for a type that this format does not know."""
    if type(value) in _AS_IT_IS or isinstance(value, (str, int, float)):
        plain: JsonValue = value
        return plain
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return encode_object(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise TypeError("a time needs a zone")
        return value.isoformat()
    if isinstance(value, Fraction):
        return [value.numerator, value.denominator]
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    raise TypeError(f"{type(value).__name__} cannot be sent")


def decode(kind: type[T], value: Any, where: str = "") -> T:
    """The value of that type, or WireError."""
    found: T = _decode(kind, value, where)
    return found


def _decode(kind: Any, value: Any, where: str) -> Any:
    origin, inner = _shape(kind)
    if origin in {Union, types.UnionType}:
        [real] = [each for each in inner if each is not types.NoneType]
        return None if value is None else _decode(real, value, where)
    if origin in {list, tuple}:
        _expect(isinstance(value, (list, tuple)), where, "a list", value)
        items = [_decode(inner[0], item, f"{where}[{number}]") for number, item in enumerate(value)]
        return items if origin is list else tuple(items)
    if origin is dict:
        _expect(isinstance(value, dict), where, "an object", value)
        return {key: _decode(inner[1], item, _below(where, key)) for key, item in value.items()}
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, where)
    if kind is datetime:
        return _decode_moment(value, where)
    if kind is Fraction:
        return _decode_fraction(value, where)
    return _decode_plain(kind, value, where)


def _decode_dataclass(kind: Any, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), where, "an object", value)
    given = {}
    for name, hint, is_needed in _fields(kind):
        if name in value:
            given[name] = _decode(hint, value[name], _below(where, name))
        elif is_needed:
            raise WireError(f"{_below(where, name)} is missing")
    found = kind(**given)
    problem = found.problem() if hasattr(found, "problem") else ""
    if problem:
        raise WireError(f"{where}: {problem}" if where else problem)
    return found


def _decode_moment(value: Any, where: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise WireError(f"{where or 'the value'} must be {_MOMENT}") from None
    _expect(moment.tzinfo is not None, where, _MOMENT, value)
    return moment


def _decode_fraction(value: Any, where: str) -> Fraction:
    is_pair = isinstance(value, list) and len(value) == 2 and all(type(each) is int for each in value)
    _expect(is_pair and value[1] != 0, where, "two whole numbers", value)
    return Fraction(value[0], value[1])


def _decode_plain(kind: Any, value: Any, where: str) -> Any:
    if kind is float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        _expect(is_number and math.isfinite(value), where, _PLAIN[float], value)
        return float(value)
    if kind not in _PLAIN:
        raise TypeError(f"{kind} cannot be received")
    _expect(type(value) is kind, where, _PLAIN[kind], value)
    return value


def _expect(is_so: bool, where: str, wanted: str, value: Any) -> None:
    if not is_so:
        raise WireError(f"{where or 'the value'} must be {wanted}, not {_name_of(value)}")


def _name_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return next((name for kind, name in _PLAIN.items() if type(value) is kind), type(value).__name__)


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


@functools.cache
def _shape(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(kind), get_args(kind)


@functools.cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in dataclasses.fields(kind))


@functools.cache
def _fields(kind: type[Any]) -> tuple[tuple[str, Any, bool], ...]:
    """Name, type, and whether the field is required."""
    hints = get_type_hints(kind)
    return tuple(
        (
            each.name,
            hints[each.name],
            each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING,
        )
        for each in dataclasses.fields(kind)
    )
