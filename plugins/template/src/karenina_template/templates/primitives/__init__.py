"""Primitives, which compare fields with their ground truths."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final, TypeVar

from karenina_core.catalog import install_command, read_catalog
from karenina_core.namespaces import namespace_of
from karenina_template.templates.primitives.base import Primitive, ReadingPrimitive, Undecided, Unreadable
from karenina_template.templates.primitives.choices import Choice
from karenina_template.templates.primitives.dates import DateMatch, DateRange, DateTolerance
from karenina_template.templates.primitives.equality import BooleanMatch, LiteralMatch, OrderedMatch, SetContainment
from karenina_template.templates.primitives.named_files import files_in, files_of, find_file
from karenina_template.templates.primitives.numeric import (
    NumericExact,
    NumericGraded,
    NumericMaximum,
    NumericMinimum,
    NumericRange,
    NumericRangeGraded,
    NumericThresholdGraded,
    NumericTolerance,
)
from karenina_template.templates.primitives.quantities import NumberWithUnit
from karenina_template.templates.primitives.semantic import SemanticMatch
from karenina_template.templates.primitives.text import (
    ContainsAll,
    ContainsAny,
    ExactMatch,
    RegexMatch,
    TraceContains,
    TraceJSON,
    TraceLength,
    TracePrimitive,
    TraceRegex,
)

__all__ = [
    "BooleanMatch",
    "Choice",
    "ContainsAll",
    "ContainsAny",
    "DateMatch",
    "DateRange",
    "DateTolerance",
    "DuplicatePrimitive",
    "ExactMatch",
    "LiteralMatch",
    "NumberWithUnit",
    "NumericExact",
    "NumericGraded",
    "NumericMaximum",
    "NumericMinimum",
    "NumericRange",
    "NumericRangeGraded",
    "NumericThresholdGraded",
    "NumericTolerance",
    "OrderedMatch",
    "Primitive",
    "ReadingPrimitive",
    "RegexMatch",
    "SemanticMatch",
    "SetContainment",
    "TraceContains",
    "TraceJSON",
    "TraceLength",
    "TracePrimitive",
    "TraceRegex",
    "Undecided",
    "UnknownPrimitive",
    "Unreadable",
    "files_in",
    "files_of",
    "find_file",
    "known_primitives",
    "missing_pack",
    "primitive_from_json",
    "primitives_by_field_type",
    "register_primitive",
]

P = TypeVar("P", bound=type[Primitive])

_known: Final[dict[str, type[Primitive]]] = {}


class DuplicatePrimitive(ValueError):
    """Raised if two primitives have the same `name`. `modules` lists the modules that define them."""

    def __init__(self, name: str, modules: tuple[str, str]) -> None:
        super().__init__(
            f"two primitives are named '{name}', one in {modules[0]} and one in {modules[1]}; rename one "
            "of them, or block the plugin that provides it"
        )
        self.name = name
        self.modules = modules


class UnknownPrimitive(ValueError):
    """Raised if no primitive is called `name`. `nearest` is the most similar name, or None."""

    def __init__(self, name: str) -> None:
        if (missing := missing_pack(name)) is not None:
            self.name, self.nearest = name, None
            super().__init__(f"the primitive {name!r} is not available; {missing}")
            return
        near = get_close_matches(name, _known, n=1, cutoff=0.5)
        self.name = name
        self.nearest = near[0] if near else None
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        super().__init__(
            f"unknown primitive {name!r}{hint or '.'} Choose one of {', '.join(sorted(_known))}, or "
            "install the plugin that provides the primitive"
        )


def register_primitive(primitive: P) -> P:
    """Register a primitive class under its full name, and return it. Raises `DuplicatePrimitive` if another class has
    the name, and `TypeError` for anything other than a subclass of `Primitive`.

    It can be used as a decorator. Registering the same class again has no effect. The full name is
    `Primitive.full_name()`.
    """
    candidate: object = primitive  # plugins may not be type-checked
    if not (isinstance(candidate, type) and issubclass(candidate, Primitive)) or candidate is Primitive:
        raise TypeError(f"a primitive must be a subclass of Primitive, not {primitive!r}")
    if namespace_of(primitive):
        primitive.model_rebuild(raise_errors=False)  # if built later, an error would not be the plugin's
    name = primitive.full_name()
    registered = _known.setdefault(name, primitive)
    if registered is not primitive:
        raise DuplicatePrimitive(name, (registered.__module__, primitive.__module__))
    return primitive


def known_primitives() -> Mapping[str, type[Primitive]]:
    """Return a live, read-only view of the registered primitives by name, with built-in ones first."""
    return MappingProxyType(_known)


def primitives_by_field_type() -> dict[str, str]:
    """Return the names of the registered primitives that have a `field_type`, keyed by this type. The keys of
    third-party primitives include the package, such as `my_package.colour`.
    """
    return {
        namespace_of(primitive) + primitive.field_type: name
        for name, primitive in _known.items()
        if primitive.field_type is not None
    }


def missing_pack(name: str) -> str | None:
    """Return which plugin to install for a primitive or field type of this project that is not registered, as the end
    of an error message. Returns None for registered and unknown names.
    """
    from karenina_core.config.setting_owners import not_loaded  # not needed to load templates

    catalog = read_catalog()
    distribution = catalog["primitives"].get(name) or catalog["field_types"].get(name)
    if distribution is None or name in _known or name in primitives_by_field_type():
        return None
    return f"it is in the plugin {distribution}; to install it, run: {install_command(distribution)}{not_loaded()}"


def primitive_from_json(data: object) -> Primitive:
    """Return the primitive described by `data` in the format of `Primitive.to_json`. Raises `ValueError` if the data is
    invalid, and `UnknownPrimitive` if the type is unknown.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("type"), str):
        raise ValueError(f'a primitive must be {{"type": name, ...parameters}}, not {data!r:.200}')  # noqa: TRY004
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
    Choice,
    NumericExact,
    NumericTolerance,
    NumericRange,
    NumericMinimum,
    NumericMaximum,
    NumericGraded,
    NumericRangeGraded,
    NumericThresholdGraded,
    NumberWithUnit,
    SetContainment,
    OrderedMatch,
    DateMatch,
    DateTolerance,
    DateRange,
    TraceRegex,
    TraceContains,
    TraceLength,
    TraceJSON,
)
for _primitive in BUILT_IN:
    register_primitive(_primitive)
