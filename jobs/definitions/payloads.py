"""The payload of a run: a dataclass for caller and handler, stored as JSON, checked when written and when read.

Old and new code run side by side during an upgrade. A reader ignores fields that it does not know, so a new field needs
a default that means what the code did before. What it cannot read otherwise waits for a job worker with other code
(jobs/runs/unreadable.py).
"""

import dataclasses
import hashlib
import json
import types
from datetime import datetime
from typing import Any, Union, get_args, get_origin, get_type_hints

from station.actions import Refusal
from station.version import VERSION

LIMIT_BYTES = 256 * 1024


class BadPayload(Refusal, ValueError):
    """The payload does not fit the handler's dataclass; the text says where."""


def dump(payload: Any, kind: type[Any] | None) -> Any:
    """The payload as plain JSON data, or BadPayload. A mapping is read as the dataclass's fields."""
    if kind is None:
        if payload is not None:
            raise BadPayload("This job takes no payload.")
        return None
    if isinstance(payload, dict):
        payload = _read(payload, kind, kind.__name__, is_strict=True)
    if not isinstance(payload, kind):
        raise BadPayload(f"The payload must be {kind.__name__}, not {type(payload).__name__}.")
    plain = json.loads(_text(dataclasses.asdict(payload)))
    load(plain, kind)  # refuse a payload that cannot be read back
    return plain


def load(stored: Any, kind: type[Any] | None) -> Any:
    """The dataclass from its stored JSON, or BadPayload."""
    if kind is None:
        if stored is not None:
            raise BadPayload("This job takes no payload.")
        return None
    return _read(stored, kind, kind.__name__)


_readers: dict[Any, str] = {}


def reader(kind: type[Any] | None) -> str:
    """A word for how this process reads a payload. A process with another word may be able to read what this cannot."""
    if kind not in _readers:
        _readers[kind] = hashlib.sha256(f"{VERSION} {_describe(kind)}".encode()).hexdigest()[:12]
    return _readers[kind]


def _describe(kind: Any) -> str:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        fields = [
            f"{each.name}{'' if _is_required(each) else '?'}: {_describe(hints[each.name])}"
            for each in dataclasses.fields(kind)
        ]
        return f"{kind.__name__}({', '.join(fields)})"
    inner = get_args(kind)
    name = getattr(kind, "__name__", str(kind))
    return f"{name}[{', '.join(_describe(each) for each in inner)}]" if inner else name


def _is_required(each: "dataclasses.Field[Any]") -> bool:
    return each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING


def dump_result(result: Any) -> Any:
    """The handler's result as plain JSON data, or BadPayload."""
    return json.loads(_text(result))


def _text(value: Any) -> str:
    try:
        text = json.dumps(value, default=_moment, allow_nan=False, ensure_ascii=False)
        text.encode()  # refuses lone surrogates, as in file names that are not UTF-8
    except (TypeError, ValueError, RecursionError) as error:
        raise BadPayload(f"This cannot be stored as JSON: {error}") from error
    if len(text) > LIMIT_BYTES:
        raise BadPayload(f"Too large: {len(text)} bytes; at most {LIMIT_BYTES} are allowed.")
    if "\\u0000" in text:
        raise BadPayload("The database cannot store a NUL character.")
    return text


def _moment(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not plain data")


def _read(value: Any, kind: Any, where: str, *, is_strict: bool = False) -> Any:
    """With `is_strict`, a field that the dataclass does not have is refused."""
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in {Union, types.UnionType}:
        return _read_union(value, get_args(kind), where, is_strict)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _read_dataclass(value, kind, where, is_strict)
    if origin in {list, tuple}:
        inner = get_args(kind)[0]
        if not isinstance(value, list):
            raise BadPayload(f"{where} must be a list.")
        items = [_read(item, inner, f"{where}[{number}]", is_strict=is_strict) for number, item in enumerate(value)]
        return items if origin is list else tuple(items)
    if origin is dict:
        if not isinstance(value, dict):
            raise BadPayload(f"{where} must be a mapping.")
        inner = get_args(kind)[1]
        return {key: _read(item, inner, f"{where}.{key}", is_strict=is_strict) for key, item in value.items()}
    return _read_plain(value, kind, where)


def _read_plain(value: Any, kind: Any, where: str) -> Any:
    if kind is datetime:
        try:
            moment = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            raise BadPayload(f"{where} must be a date and time like 2026-03-29T20:15:00+00:00.") from None
        if moment.tzinfo is None:
            raise BadPayload(f"{where} must have a time zone.")
        return moment
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is type(None):
        kind = types.NoneType
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadPayload(f"{where} must be {getattr(kind, '__name__', kind)}, not {type(value).__name__}.")
    return value


def _read_union(value: Any, kinds: tuple[Any, ...], where: str, is_strict: bool) -> Any:
    for kind in kinds:
        try:
            return _read(value, kind, where, is_strict=is_strict)
        except BadPayload:
            continue
    raise BadPayload(f"{where} matches none of {', '.join(getattr(kind, '__name__', str(kind)) for kind in kinds)}.")


def _read_dataclass(value: Any, kind: type[Any], where: str, is_strict: bool) -> Any:
    if not isinstance(value, dict):
        raise BadPayload(f"{where} must be a mapping of its fields.")
    hints = get_type_hints(kind)
    fields = {each.name: each for each in dataclasses.fields(kind)}
    unknown = sorted(set(value) - set(fields))
    if unknown and is_strict:
        raise BadPayload(f"{where} has no field {', '.join(unknown)}.")
    given = {
        name: _read(item, hints[name], f"{where}.{name}", is_strict=is_strict)
        for name, item in value.items()
        if name in fields
    }
    missing = [name for name, each in fields.items() if name not in given and _is_required(each)]
    if missing:
        raise BadPayload(f"{where} is missing {', '.join(missing)}.")
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise BadPayload(f"{where}: {error}") from error
