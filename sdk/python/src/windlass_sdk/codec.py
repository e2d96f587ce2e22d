"""Values to JSON and back, by annotation: pydantic models if pydantic is installed, dataclasses, typed dictionaries,
enumerations, dates, and everything that JSON itself has."""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
import types
import typing
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, Union
from uuid import UUID

from .duration import millis

try:
    from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
except ImportError:
    _PYDANTIC = False
else:
    _PYDANTIC = True

_adapters: dict[Any, Any] = {}
#: Problems of one value that are named.
_PROBLEMS_MAX = 5


def _default(value: Any) -> Any:
    if _PYDANTIC and isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def dumps(value: Any) -> str:
    """The value as JSON. Raises ``ValueError`` or ``TypeError`` if it has none: NaN, cycles, foreign objects, lone
    surrogates."""
    try:
        found = json.dumps(value, default=_default, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        found.encode("utf-8")
    except RecursionError:
        raise ValueError("it is nested too deeply or in itself") from None
    return found


def plain(value: Any) -> Any:
    """The value as read back from its JSON, as later attempts get it."""
    return json.loads(dumps(value))


def payload_fields(payload: Any) -> dict[str, Any]:
    """A payload as the API takes it: JSON, or bytes."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return {"payload_base64": base64.b64encode(payload).decode(), "content_type": "application/octet-stream"}
    return {"payload": plain(payload)}


class Unreadable(ValueError):
    """A value does not fit its type. The text has no part of the value: it is stored with the job, and shown."""


def decode(value: Any, kind: Any) -> Any:
    """Reads plain JSON as a type.

    Raises ``Unreadable`` if it does not fit, whatever its class raised.
    """
    if kind is None or kind is Any or kind is dataclasses.MISSING:
        return value
    try:
        return _decode(value, kind)
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(_problem(error)) from None


def _problem(error: Exception) -> str:
    if _PYDANTIC and isinstance(error, ValidationError):
        shown = error.errors(include_url=False, include_context=False, include_input=False)[:_PROBLEMS_MAX]
        return ", ".join(f"{'.'.join(map(str, one['loc'])) or 'the value'}: {one['type']}" for one in shown)
    return f"{type(error).__name__} was raised"


def _decode(value: Any, kind: Any) -> Any:
    if _PYDANTIC:
        adapter = _adapter(kind)
        if adapter is not None:
            # By JSON, so that dates, bytes and tuples are read in the same way as they were written.
            return adapter.validate_json(json.dumps(value))
    return _read(value, kind)


def _adapter(kind: Any) -> Any:
    """The adapter of a type; None if pydantic has none, such as for ``typing.TypedDict`` before Python 3.12."""
    try:
        if kind not in _adapters:
            _adapters[kind] = _new_adapter(kind)
        return _adapters[kind]
    except TypeError:
        # The type cannot be a key.
        return _new_adapter(kind)


def _new_adapter(kind: Any) -> Any:
    try:
        return TypeAdapter(kind)
    except PydanticUserError:
        return None


def _read(value: Any, kind: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _read_union(value, arguments)
    if origin is Literal:
        return _expect(value, value in arguments, kind)
    if origin in (list, set, frozenset) or (origin is tuple and arguments[1:] == (Ellipsis,)):
        _expect(value, isinstance(value, list), kind)
        return origin(_read(one, arguments[0]) for one in value)
    if origin is tuple:
        _expect(value, isinstance(value, list) and len(value) == len(arguments), kind)
        return tuple(_read(one, each) for one, each in zip(value, arguments))
    if origin is dict or origin is Mapping:
        _expect(value, isinstance(value, dict), kind)
        return {_read_key(key, arguments[0]): _read(one, arguments[1]) for key, one in value.items()}
    return _read_class(value, kind)


def _read_key(key: str, kind: Any) -> Any:
    """A key of an object, which JSON writes as text."""
    if kind is bool:
        return _read({"true": True, "false": False}.get(key), kind)
    if kind in (int, float):
        return kind(key)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next((one for one in kind if str(one.value) == key), None) or kind(key)
    if typing.get_origin(kind) in (Union, types.UnionType):
        return next((_read_key(key, one) for one in typing.get_args(kind) if _is_key(key, one)), key)
    return _read(key, kind)


def _is_key(key: str, kind: Any) -> bool:
    try:
        _read_key(key, kind)
    except Exception:
        return False
    return True


def _read_union(value: Any, kinds: tuple[Any, ...]) -> Any:
    for kind in kinds:
        try:
            return _read(value, kind)
        except Exception:
            continue
    raise Unreadable(f"a {type(value).__name__} is none of {kinds}")


def _read_class(value: Any, kind: Any) -> Any:
    if kind is None or kind is type(None):
        return _expect(value, value is None, kind)
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind)
        _expect(value, isinstance(value, dict) and set(kind.__required_keys__) <= set(value), kind)
        return {key: _read(one, hints.get(key, Any)) for key, one in value.items()}
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(value, kind)
    if not isinstance(kind, type):
        return value
    if _PYDANTIC and issubclass(kind, BaseModel):
        return kind.model_validate(value)
    if issubclass(kind, enum.Enum):
        return kind(value)
    if kind in (datetime, date):
        return kind.fromisoformat(value.replace("Z", "+00:00"))
    if kind is timedelta:
        return timedelta(milliseconds=millis(value)) if isinstance(value, str) else timedelta(seconds=value)
    if kind in (UUID, Decimal):
        return kind(value)
    if kind is float:
        return float(_expect(value, isinstance(value, (int, float)) and not isinstance(value, bool), kind))
    if kind in (int, str, dict, list):
        return _expect(value, isinstance(value, kind) and not (kind is int and isinstance(value, bool)), kind)
    return _expect(value, isinstance(value, kind), kind)


def _read_dataclass(value: Any, kind: Any) -> Any:
    _expect(value, isinstance(value, dict), kind)
    hints = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind) if field.init}
    unknown = set(value) - known
    if unknown:
        raise Unreadable(f"{kind.__name__} has no field {sorted(unknown)[0]!r}")
    return kind(**{name: _read(one, hints[name]) for name, one in value.items()})


def _expect(value: Any, fits: bool, kind: Any) -> Any:
    if not fits:
        raise Unreadable(f"a {type(value).__name__} is not a {getattr(kind, '__name__', kind)}")
    return value
