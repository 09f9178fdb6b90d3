"""The entry points of plugins: which of them may be loaded, and how they are loaded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint
from typing import Final, Literal, NamedTuple, Self, TypeVar

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


class PluginInfo(NamedTuple):
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
        """Return whether `names` contains the plugin's name or its distribution's name, in any spelling."""
        return any(name == self.name or canonical(name) == self.distribution for name in names)

    def with_failure(self, state: State, failure: str) -> PluginInfo:
        """Return a copy with the given state. `failure` is the reason why the plugin is not used."""
        return self._replace(state=state, failure=failure)


class Selection(NamedTuple):
    """A selection of plugins by the names of their entry points or distributions.

    Plugins in `block` are not loaded. If `only` is not empty, no other plugins are loaded. `pick` chooses the
    distribution for names that several distributions offer.
    """

    block: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    pick: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, block: Iterable[str] = (), only: Iterable[str] = (), pick: Mapping[str, str] | None = None) -> Self:
        """Create a selection from the `[plugins]` table and the environment variable `KARENINA_PLUGINS`. The variable
        is a comma-separated list. An entry `-name` adds the name to `block`. Any other entry is added to `only`.
        """
        words = [word.strip() for word in os.environ.get("KARENINA_PLUGINS", "").split(",") if word.strip()]
        return cls(
            frozenset(block) | {word[1:] for word in words if word.startswith("-")},
            frozenset(only) | {word for word in words if not word.startswith("-")},
            tuple(sorted((name, canonical(owner)) for name, owner in (pick or {}).items())),
        )

    def allows(self, info: PluginInfo) -> bool:
        """Return whether the entry point may be loaded. `only` never excludes the core, which every plan needs, or hook
        specifications, which have no effect by themselves.
        """
        always = info.distribution == CORE or info.kind == "hooks"
        return not info.is_named_in(self.block) and (not self.only or always or info.is_named_in(self.only))


def filter_entry_points(
    points: Iterable[EntryPoint], kind: Kind, selection: Selection
) -> Iterator[tuple[PluginInfo, EntryPoint]]:
    """Yield pairs of a `PluginInfo` and its entry point. The state is `found` only if the entry point may be loaded:
    its name is valid, `selection` allows it, and no other distribution offers the name, or this one is picked.

    The choice must not depend on the order in which the entry points are found.
    """
    allowed: dict[str, dict[str, tuple[PluginInfo, EntryPoint]]] = {}
    for info, point in sorted((_make_info(point, kind), point) for point in points):
        if kind == "adapter" and not info.name.startswith(prefix := namespace(point.value.partition(":")[0])):
            right = prefix + info.name.rpartition(".")[2]
            why = f"the name {info.name!r} must begin with {prefix!r}, as in {right!r}"
            yield info.with_failure("failed", why), point
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
    """Load the entry points of a group. Yield each with the value that `accept` returns for its object. The value is
    None if the entry point may not be loaded, if loading fails, or if `accept` raises an exception.
    """
    for info, point in filter_entry_points(points, kind, selection):
        try:
            yield info, accept(load_entry_point(point), info) if info.state == "found" else None
        except (Exception, SystemExit) as error:
            yield info.with_failure("failed", type_and_message(error)), None


def load_entry_point(point: EntryPoint) -> object:
    """Import and return the object of an entry point. Import errors propagate unchanged.

    Loading is done by stevedore, as in other projects. Left to itself, stevedore would use a cache on disk and choose
    any of several entry points with the same name. Its list of entry points is therefore replaced by this one.
    """
    from stevedore import ExtensionManager, NamedExtensionManager

    if EntryPoint.pattern.match(point.value) is None:
        raise ImportError(f"the entry point {point.value!r} does not have the form 'package.module:object'")

    def fail(_manager: object, _point: EntryPoint, error: BaseException) -> None:
        raise error

    ExtensionManager.ENTRY_POINT_CACHE[point.group] = [point]
    manager: NamedExtensionManager[object] = NamedExtensionManager(
        point.group, [point.name], on_load_failure_callback=fail
    )
    return manager[point.name].plugin


def canonical(distribution: str) -> str:
    """Return a distribution's normalized name, as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _with_conflict(info: PluginInfo, rivals: list[PluginInfo], picked: str | None) -> PluginInfo:
    """Return `info`, changed to a failure if its distribution is not the one that the user picked, or if several offer
    the name and none was picked (None). `rivals` are all entry points with this name, including `info`.
    """
    owners = [rival.distribution for rival in rivals]
    if picked == info.distribution or (picked is None and len(rivals) == 1):
        return info
    if picked in owners:
        return info.with_failure("blocked", f"[plugins.pick] selects {picked} for {info.name}")
    if picked is not None:
        why = f"[plugins.pick] {info.name} names {picked!r}, which does not offer this {info.kind}"
        return info.with_failure("conflict", f"{why}; choose one that does: {', '.join(owners)}")
    both = " and ".join(f"{rival.distribution} {rival.version}" for rival in rivals)
    why = f"two distributions offer the {info.kind} {info.name} ({both}); choose one in the configuration with"
    return info.with_failure("conflict", f'{why} [plugins.pick] {info.name} = "{owners[0]}"')


def _make_info(point: EntryPoint, kind: Kind) -> PluginInfo:
    """Describe an entry point. Without a distribution, its name is `unknown` and its version is 0."""
    facts = {"Name": "unknown", "Version": "0"} if point.dist is None else facts_of(point.dist)
    return PluginInfo(point.name, kind, canonical(facts["Name"]), facts["Version"], point.value)
