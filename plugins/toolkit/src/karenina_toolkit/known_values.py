"""The known values that stages offer to template fields: their names, types and distributions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args, get_origin

from karenina_core.catalog import read_catalog
from karenina_core.plugins import active_plugins
from karenina_core.stages.stage import registered_stages

if TYPE_CHECKING:
    from karenina_core.data.sections import KnownValue, VerificationResultTemplate
    from karenina_core.plugins import Plugins
    from karenina_core.stages.stage import RegisteredStage


class OfferedValue(NamedTuple):
    """A known value, or all known values whose names match a pattern such as `checks.*.output`.

    `kind` is the value's type as written in a template, such as `list[str]`. `object` means any type. `stages` contains
    the names of the stages that offer the value. It is empty if the distribution is not installed. `choices` contains
    all possible values, if the type of an installed stage is a literal.
    """

    name: str
    kind: str
    distribution: str
    stages: tuple[str, ...] = ()
    choices: tuple[object, ...] = ()


def type_name(kind: object) -> str:
    """Return a type as written in a template, such as `int` or `list[str]`. A literal is the type of its values."""
    if get_origin(kind) is Literal:
        kind = type(get_args(kind)[0])
    return kind.__name__ if isinstance(kind, type) else str(kind)


def offered_values(plugins: Plugins) -> list[OfferedValue]:
    """Return the known values that installed stages offer, one entry for each name, sorted by name. If several stages
    offer a value, those marked as `fallback` are listed first, and the first stage determines the type.
    """
    by_name: dict[str, list[RegisteredStage]] = {}
    for registered in sorted(registered_stages(plugins), key=lambda offering: not offering.stage.fallback):
        for name in registered.stage.offers:
            by_name.setdefault(name, []).append(registered)
    return [
        OfferedValue(
            name,
            type_name(offering[0].stage.offers[name]),
            offering[0].distribution,
            tuple(registered.stage.name for registered in offering),
            _choices(offering[0].stage.offers[name]),
        )
        for name, offering in sorted(by_name.items())
    ]


def _choices(kind: object) -> tuple[object, ...]:
    """Return the values of a literal, or nothing for other types."""
    return get_args(kind) if get_origin(kind) is Literal else ()


def find_offer(name: str) -> OfferedValue | None:
    """Return the offer for the known value with the given name, or None if neither an installed plugin nor one of this
    project offers it. If several patterns match, the longest one is used, because it is the most specific.
    """
    catalog: Mapping[str, tuple[str, str]] = read_catalog()["known_values"]
    shipped = (OfferedValue(pattern, kind, owner) for pattern, (owner, kind) in catalog.items())
    return _most_specific(name, shipped) or _most_specific(name, offered_values(active_plugins()))


def known_fields(template: VerificationResultTemplate) -> dict[str, tuple[str, KnownValue]]:
    """Return the fields of a result that are filled with known values, each with the value and its name."""
    values = template.known_values or {}
    return {field: (name, known) for name, known in values.items() for field in known.fields}


def _most_specific(name: str, offers: Iterable[OfferedValue]) -> OfferedValue | None:
    """Return the matching offer with the longest name, or None."""
    fitting = [offer for offer in offers if fnmatchcase(name, offer.name)]
    return max(fitting, key=lambda offer: len(offer.name), default=None)
