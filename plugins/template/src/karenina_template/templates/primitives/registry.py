"""Which primitives there are, by name, and how one is read from JSON. Plugins register theirs here."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final, TypeVar

from karenina_template.templates.primitives.base import Primitive
from karenina_template.templates.primitives.dates import DateMatch, DateRange, DateTolerance
from karenina_template.templates.primitives.equality import BooleanMatch, LiteralMatch
from karenina_template.templates.primitives.graded import NumericGraded, NumericRangeGraded, NumericThresholdGraded
from karenina_template.templates.primitives.numeric import (
    NumericExact,
    NumericMaximum,
    NumericMinimum,
    NumericRange,
    NumericTolerance,
)
from karenina_template.templates.primitives.semantic import SemanticMatch
from karenina_template.templates.primitives.sets import OrderedMatch, SetContainment
from karenina_template.templates.primitives.text import ContainsAll, ContainsAny, ExactMatch, RegexMatch
from karenina_template.templates.primitives.trace import TraceContains, TraceLength, TraceRegex

P = TypeVar("P", bound=type[Primitive])

_known: Final[dict[str, type[Primitive]]] = {}


class DuplicatePrimitive(ValueError):
    """Two primitives of one `name`, and the two `modules` they come from."""

    def __init__(self, name: str, modules: tuple[str, str]) -> None:
        super().__init__(
            f"two primitives are named {name}: one of {modules[0]}, one of {modules[1]}; "
            "rename one, or block the plugin that brings it"
        )
        self.name = name
        self.modules = modules


class UnknownPrimitive(ValueError):
    """A `name` that is no primitive here, and the `nearest` that is."""

    def __init__(self, name: str) -> None:
        near = get_close_matches(name, _known, n=1, cutoff=0.5)
        self.name = name
        self.nearest = near[0] if near else None
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        super().__init__(
            f"there is no primitive {name!r}{hint} Known are {', '.join(sorted(_known))}; "
            "others come with plugins: is the one that brings it installed?"
        )


def register_primitive(primitive: P) -> P:
    """Add a class of primitive under its own name; usable as a decorator.

    The same class may come twice. DuplicatePrimitive where another class has the name; TypeError for what is no
    subclass of `Primitive`.
    """
    candidate: object = primitive  # plugins are not always type-checked
    if not (isinstance(candidate, type) and issubclass(candidate, Primitive)) or candidate is Primitive:
        raise TypeError(f"a primitive is a subclass of Primitive, not {primitive!r}")
    known = _known.setdefault(primitive.__name__, primitive)
    if known is not primitive:
        raise DuplicatePrimitive(primitive.__name__, (known.__module__, primitive.__module__))
    return primitive


def known_primitives() -> Mapping[str, type[Primitive]]:
    """Return the registered primitives by name, the built-in ones first. A view: what is registered later shows."""
    return MappingProxyType(_known)


def primitive_from_json(data: object) -> Primitive:
    """Return the primitive that `Primitive.to_json` wrote.

    ValueError where `data` is no object with a "type" that is text, or its parameters are wrong (they are named);
    UnknownPrimitive, with the nearest name, where no plugin here has that type.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("type"), str):
        raise ValueError(f'a primitive is written {{"type": name, ...parameters}}, not {data!r:.200}')  # noqa: TRY004
    kind = _known.get(data["type"])
    if kind is None:
        raise UnknownPrimitive(data["type"])
    return kind.model_validate({name: value for name, value in data.items() if name != "type"})


BUILT_IN: Final[tuple[type[Primitive], ...]] = (
    BooleanMatch,
    ExactMatch,
    ContainsAny,
    ContainsAll,
    RegexMatch,
    SemanticMatch,
    LiteralMatch,
    NumericExact,
    NumericTolerance,
    NumericRange,
    NumericMinimum,
    NumericMaximum,
    NumericGraded,
    NumericRangeGraded,
    NumericThresholdGraded,
    SetContainment,
    OrderedMatch,
    DateMatch,
    DateTolerance,
    DateRange,
    TraceRegex,
    TraceContains,
    TraceLength,
)
for _primitive in BUILT_IN:
    register_primitive(_primitive)
