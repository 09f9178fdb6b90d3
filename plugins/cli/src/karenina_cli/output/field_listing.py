"""Descriptions of pydantic models' fields, for people who write files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from rich.text import Text

from karenina_terminal.screen import print_wrapped
from karenina_toolkit.printable import clean

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from rich.console import Console

_WORDS: Final[dict[Any, str]] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    Decimal: "number",
    str: "text",
    SecretStr: "text",
    Path: "path",
    date: "date",
    datetime: "date and time",
    Any: "any value",
    object: "any value",
    NoneType: "null",
}
_BOUNDS: Final = (
    ("ge", "at least {}"),
    ("gt", "above {}"),
    ("le", "at most {}"),
    ("lt", "below {}"),
)


@dataclass(frozen=True, slots=True)
class ListedField:
    """A field's name, type in words, default as JSON (None if it is required), and meaning."""

    name: str
    type: str
    default: str | None
    meaning: str

    def to_json(self) -> dict[str, Any]:
        """Convert the field to JSON. The default of a required field is null."""
        default = json.loads(self.default) if self.default is not None else None
        return {
            "name": self.name,
            "type": self.type,
            "required": self.default is None,
            "default": default,
            "meaning": self.meaning,
        }


def list_fields(model: type[BaseModel], without: Collection[str] = ()) -> list[ListedField]:
    """Return the fields of `model`, except those in `without`."""
    return [
        ListedField(name, type_of(info), default_of(info), info.description or "")
        for name, info in model.model_fields.items()
        if name not in without
    ]


def print_fields(console: Console, fields: Iterable[ListedField], indent: str = "    ") -> None:
    """Print the fields, starting each line with `indent`. The meaning follows below name, default and type."""
    for field in fields:
        default = "  (required)" if field.default is None else f" = {field.default}"
        line = Text(f"{indent}{field.name}", "bold") + Text(clean(f"{default}  [{field.type}]"), "not bold")
        print_wrapped(console, line)
        if field.meaning:
            print_wrapped(console, Text(clean(f"{indent}    {field.meaning}")))


def plain_type(annotation: Any) -> str:
    """Describe a type in words, such as `list of text`, `one of days, hours` or `number or null`."""
    if annotation in _WORDS:
        return _WORDS[annotation]
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _with_bounds(plain_type(parts[0]), parts[1:])
    if origin in (Union, UnionType):
        words = dict.fromkeys(plain_type(part) for part in sorted(parts, key=lambda part: part is NoneType))
        return " or ".join(word for word in words if not (word == _WORDS[int] and _WORDS[float] in words))
    if origin is Literal:
        return parts[0] if len(parts) == 1 else f"one of {', '.join(map(str, parts))}"
    if hasattr(annotation, "__value__"):  # a recursive type, such as that of JSON values
        return "any value"
    return _plain_class(origin or annotation, [part for part in parts if part is not Ellipsis])


def nested_model(annotation: Any) -> type[BaseModel] | None:
    """Return the first pydantic model in a type, such as the model of a list's items, or None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := nested_model(part)) is not None), None)


def type_of(info: FieldInfo) -> str:
    """Describe a field's type in words, with its bounds. Omits `or null` if null is the default."""
    words = plain_type(info.annotation)
    if default_of(info) == "null":
        words = words.removesuffix(" or null")
    return _with_bounds(words, info.metadata)


def default_of(info: FieldInfo) -> str | None:
    """Return a field's default as JSON, or None if the field is required."""
    if info.is_required():
        return None
    from pydantic_core import to_jsonable_python

    value = to_jsonable_python(info.get_default(call_default_factory=True), fallback=str)
    return json.dumps(value, ensure_ascii=False)


def _plain_class(kind: Any, parts: Sequence[Any]) -> str:
    """Describe a class and its type arguments in words, or return its Python name."""
    if not isinstance(kind, type):
        return str(kind)
    if issubclass(kind, Mapping):
        return f"mapping of {plain_type(parts[0])} to {plain_type(parts[1])}" if len(parts) == 2 else "mapping"
    if issubclass(kind, Sequence | Set):
        return f"list of {plain_type(parts[0])}" if parts else "list"
    if issubclass(kind, BaseModel):
        return "mapping"
    if issubclass(kind, Enum):
        return f"one of {', '.join(str(member.value) for member in kind)}"
    return kind.__name__


def _with_bounds(words: str, marks: Iterable[Any]) -> str:
    """Return `words` followed by the bounds in a field's metadata, as in `number, at least 0, below 1`. Patterns are
    not shown.
    """
    flat = [bound for mark in marks for bound in (mark, *getattr(mark, "metadata", ()))]
    bounds = {
        text.format(value): None
        for mark in flat
        for name, text in _BOUNDS
        if (value := getattr(mark, name, None)) is not None
    }
    if any(getattr(mark, "min_length", None) == 1 for mark in flat):
        bounds["not empty"] = None
    return ", ".join([words, *bounds])
