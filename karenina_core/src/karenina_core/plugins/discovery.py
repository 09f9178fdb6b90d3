"""The entry points of plugins: which of them may be loaded, and loading them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from typing import Final, Literal, TypeVar

from karenina_core.catalog import CORE
from karenina_core.errors import type_and_message
from karenina_core.namespaces import facts_of, namespace
from karenina_core.namespaces import installed as installed

T = TypeVar("T")
Kind = Literal["stage", "adapter", "other", "hooks"]
State = Literal["found", "loaded", "failed", "blocked", "conflict"]

GROUPS: Final[dict[str, Kind]] = {
    "karenina.stages": "stage",
    "karenina.adapters": "adapter",
    "karenina.plugins": "other",
}


@dataclass(frozen=True, slots=True, order=True)
class PluginInfo:
    """An entry point and its state."""

    name: str
    kind: Kind
    distribution: str
    version: str
    target: str
    state: State = "found"
    failure: str | None = None
    ignored: tuple[str, ...] = ()
    """Implemented hooks that have no effect, each with the reason."""

    def is_named_in(self, names: Iterable[str]) -> bool:
        """Return whether `names` contains the name of the plugin or, in any spelling, of its distribution."""
        return any(name == self.name or canonical(name) == self.distribution for name in names)

    def with_failure(self, state: State, failure: str) -> PluginInfo:
        """Return a copy with this state. `failure` is the reason why the plugin is not used."""
        return replace(self, state=state, failure=failure)


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of plugins by the names of entry points or distributions.

    Plugins in `block` are not loaded, and if `only` is not empty, neither are any others. `pick` chooses the
    distribution for names that two distributions offer.
    """

    block: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    pick: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, block: Iterable[str] = (), only: Iterable[str] = (), pick: Mapping[str, str] | None = None
    ) -> Selection:
        """Create a selection from the `[plugins]` table and the variable `KARENINA_PLUGINS`.

        The variable is a comma-separated list. `-name` is added to `block`, and other names to `only`.
        """
        words = [word.strip() for word in os.environ.get("KARENINA_PLUGINS", "").split(",") if word.strip()]
        return cls(
            frozenset(block) | {word[1:] for word in words if word.startswith("-")},
            frozenset(only) | {word for word in words if not word.startswith("-")},
            tuple(sorted((name, canonical(owner)) for name, owner in (pick or {}).items())),
        )

    def allows(self, info: PluginInfo) -> bool:
        """Return whether the entry point may be loaded.

        `only` never excludes the core, which every plan needs, or hook specifications, which do nothing by themselves.
        """
        always = info.distribution == CORE or info.kind == "hooks"
        return not info.is_named_in(self.block) and (not self.only or always or info.is_named_in(self.only))


def filter_entry_points(
    points: Iterable[EntryPoint], kind: Kind, selection: Selection
) -> Iterator[tuple[PluginInfo, EntryPoint]]:
    """Yield the entry points in a group with their states. Those in the state `found` may be loaded.

    If several distributions offer the same name, none is used unless `pick` names one. The choice must not depend on
    which is found first.
    """
    allowed: dict[str, dict[str, tuple[PluginInfo, EntryPoint]]] = {}
    for info, point in sorted((_make_info(point, kind), point) for point in points):
        if kind == "adapter" and not info.name.startswith(prefix := namespace(point.module)):
            yield info.with_failure("failed", f"the name {info.name!r} must begin with {prefix!r}"), point
        elif selection.allows(info):
            allowed.setdefault(info.name, {}).setdefault(info.distribution, (info, point))
        else:
            yield info.with_failure("blocked", "excluded by [plugins] or KARENINA_PLUGINS"), point
    picked = dict(selection.pick)
    for name, owners in allowed.items():
        rivals = [info for info, _ in owners.values()]
        for info, point in owners.values():
            yield _with_conflict(info, rivals, picked.get(name)), point


def load_entry_points(
    points: Iterable[EntryPoint], kind: Kind, selection: Selection, accept: Callable[[object, PluginInfo], T]
) -> Iterator[tuple[PluginInfo, T | None]]:
    """Load the entry points in a group, and yield each with the value of `accept` for its object.

    The value is None if it may not be loaded, if loading fails, or if `accept` raises an exception.
    """
    for info, point in filter_entry_points(points, kind, selection):
        try:
            loaded = (info, accept(load_entry_point(point), info) if info.state == "found" else None)
        except (Exception, SystemExit) as error:
            loaded = (info.with_failure("failed", type_and_message(error)), None)
        yield loaded


def load_entry_point(point: EntryPoint) -> object:
    """Import the object of an entry point. Import errors are raised unchanged.

    Loading is left to stevedore, as in other projects. Its list is replaced by this entry point, because it would use a
    cache on disk and choose any of several with the same name.
    """
    from stevedore import ExtensionManager, NamedExtensionManager

    def fail(_manager: object, _point: EntryPoint, error: BaseException) -> None:
        raise error

    ExtensionManager.ENTRY_POINT_CACHE[point.group] = [point]
    manager: NamedExtensionManager[object] = NamedExtensionManager(
        point.group, [point.name], on_load_failure_callback=fail
    )
    return manager[point.name].plugin


def canonical(distribution: str) -> str:
    """Return the normalized name of a distribution, as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _with_conflict(info: PluginInfo, rivals: list[PluginInfo], picked: str | None) -> PluginInfo:
    """Return `info`, with the reason if another distribution is to be used for its name.

    `rivals` are the entry points with this name, including `info`. `picked` is the distribution that the user chose, if
    any.
    """
    owners = [rival.distribution for rival in rivals]
    if picked == info.distribution or (picked is None and len(rivals) == 1):
        return info
    if picked in owners:
        return info.with_failure("blocked", f"[plugins.pick] selects {picked} for {info.name}")
    if picked is not None:
        return info.with_failure(
            "conflict",
            f"[plugins.pick] {info.name} names {picked!r}, which does not offer this {info.kind}; choose one that "
            f"does: {', '.join(owners)}",
        )
    both = " and ".join(f"{rival.distribution} {rival.version}" for rival in rivals)
    return info.with_failure(
        "conflict",
        f"two distributions offer the {info.kind} {info.name} ({both}); choose one in the configuration with "
        f'[plugins.pick] {info.name} = "{owners[0]}"',
    )


def _make_info(point: EntryPoint, kind: Kind) -> PluginInfo:
    """Describe an entry point. Without a distribution, this is `unknown` in version 0."""
    facts = {"Name": "unknown", "Version": "0"} if point.dist is None else facts_of(point.dist)
    return PluginInfo(point.name, kind, canonical(facts["Name"]), facts["Version"], point.value)
