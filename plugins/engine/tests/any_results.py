"""Results with any valid values, for laws about what is written and read."""

from __future__ import annotations

from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue

from karenina_core.data.result import VerificationResult

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63),
    float: NUMBER | st.floats(0, 100).map(lambda seconds: round(seconds, 6)),
    str: TEXT,
    type(None): st.none(),
    Any: JSON,
    JsonValue: JSON,
}
NOT_OF_TYPE = {"usage_metadata": st.none() | st.just({"total": {"calls": 1, "input_tokens": 0}})}
"""The values of fields that have a rule beside their type."""


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Return the values of a type in a result."""
    outer, inner = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if outer is Annotated:
        return st.text("0123456789abcdef", min_size=64, max_size=64)
    if outer is Literal:
        return st.sampled_from(inner)
    if outer in (Union, UnionType):
        return st.one_of(*map(values, inner))
    if outer is list:
        return st.lists(values(inner[0]), max_size=2)
    if outer is dict:
        return st.dictionaries(TEXT, values(inner[1]), max_size=2)
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    return models(kind)


def models(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    """Return objects of a model, each field at its default or with any other value."""
    required, optional = {}, {}
    for name, field in model.model_fields.items():
        has_pattern = any(hasattr(rule, "pattern") for rule in field.metadata)
        kind = Annotated[field.annotation, "pattern"] if has_pattern else field.annotation
        fields = required if field.is_required() else optional
        fields[name] = NOT_OF_TYPE[name] if name in NOT_OF_TYPE else values(kind)
    return st.fixed_dictionaries(required, optional=optional).map(model.model_validate)


RESULTS: st.SearchStrategy[list[VerificationResult]] = st.lists(models(VerificationResult), max_size=3)
