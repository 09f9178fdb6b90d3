"""Which entry points are installed, and which of them may be loaded: names are read, and nothing is imported."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from typing import Final, Literal, TypeVar

from karenina_core.catalog import CORE
from karenina_core.errors import type_and_message

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
    """One entry point, and what became of it."""

    name: str
    kind: Kind
    distribution: str
    version: str
    target: str
    state: State = "found"
    failure: str | None = None
    ignored: tuple[str, ...] = ()
    """Hooks that it implements without effect, each with the reason."""

    def is_named_in(self, names: Iterable[str]) -> bool:
        """Return whether one of `names` is its own, or its distribution's in any spelling."""
        return any(name == self.name or canonical(name) == self.distribution for name in names)

    def with_failure(self, state: State, failure: str) -> PluginInfo:
        """Return it as one that is not used, with the reason."""
        return replace(self, state=state, failure=failure)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which plugins may be loaded: `only` these, none of `block`, and by `pick` whose offer stands for a name that two
    distributions offer. Names are those of entry points or of distributions."""

    block: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    pick: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, block: Iterable[str] = (), only: Iterable[str] = (), pick: Mapping[str, str] | None = None
    ) -> Selection:
        """A selection from the values of a `[plugins]` table, with `KARENINA_PLUGINS` on top.

        The variable is a comma-separated list: `-name` blocks, and other names are the only ones.
        """
        words = [word.strip() for word in os.environ.get("KARENINA_PLUGINS", "").split(",") if word.strip()]
        return cls(
            frozenset(block) | {word[1:] for word in words if word.startswith("-")},
            frozenset(only) | {word for word in words if not word.startswith("-")},
            tuple(sorted((name, canonical(owner)) for name, owner in (pick or {}).items())),
        )

    def allows(self, info: PluginInfo) -> bool:
        """Whether the entry point may be loaded. `only` never leaves out the core's own: no plan could do without.

        Nor does it leave out specifications of hooks: without plugins they have no effect.
        """
        always = info.distribution == CORE or info.kind == "hooks"
        return not info.is_named_in(self.block) and (not self.only or always or info.is_named_in(self.only))


def filter_entry_points(
    points: Iterable[EntryPoint], kind: Kind, selection: Selection
) -> Iterator[tuple[PluginInfo, EntryPoint]]:
    """Yield the entry points of one group, each with whether it may be loaded: its state is then `found`.

    A name that several distributions offer and nobody picked is usable from none of them: which one stands must not
    depend on which is found first. Neither is a name whose pick does not offer it. The order of `points` has no effect.
    """
    allowed: dict[str, dict[str, tuple[PluginInfo, EntryPoint]]] = {}
    for info, point in sorted((_make_info(point, kind), point) for point in points):
        if selection.allows(info):
            allowed.setdefault(info.name, {}).setdefault(info.distribution, (info, point))
        else:
            yield info.with_failure("blocked", "left out by the plugin selection"), point
    picked = dict(selection.pick)
    for name, owners in allowed.items():
        rivals = [info for info, _ in owners.values()]
        for info, point in owners.values():
            yield _with_conflict(info, rivals, picked.get(name)), point


def load_entry_points(
    points: Iterable[EntryPoint], kind: Kind, selection: Selection, accept: Callable[[object, PluginInfo], T]
) -> Iterator[tuple[PluginInfo, T | None]]:
    """Import what the entry points of one group name, and yield what `accept` makes of it.

    None for those that may not be loaded, that cannot be loaded, and that `accept` refuses by raising an error.
    """
    for info, point in filter_entry_points(points, kind, selection):
        try:
            found = (info, accept(load_entry_point(point), info) if info.state == "found" else None)
        except (Exception, SystemExit) as error:
            found = (info.with_failure("failed", type_and_message(error)), None)
        yield found


def load_entry_point(point: EntryPoint) -> object:
    """Return what an entry point names. Raises what importing it raises.

    stevedore loads it, because the project loads plugins the way other Python projects do. It finds entry points in a
    cache on disk, and takes one of several with the same name; both are decided before, so its list is replaced by
    the one entry point that was chosen.
    """
    from stevedore import ExtensionManager, NamedExtensionManager

    failures: list[BaseException] = []
    ExtensionManager.ENTRY_POINT_CACHE[point.group] = [point]
    found: NamedExtensionManager[object] = NamedExtensionManager(
        point.group, [point.name], on_load_failure_callback=lambda _manager, _point, error: failures.append(error)
    )
    if failures:
        raise failures[0]
    return found[point.name].plugin


def canonical(distribution: str) -> str:
    """Return the name of a distribution as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _with_conflict(info: PluginInfo, rivals: list[PluginInfo], picked: str | None) -> PluginInfo:
    """Return `info` if its offer stands among those of its name, else with the reason why it does not."""
    owners = [one.distribution for one in rivals]
    if picked == info.distribution or (picked is None and len(rivals) == 1):
        return info
    if picked in owners:
        return info.with_failure("blocked", f"{picked} is picked for {info.name}")
    if picked is not None:
        return info.with_failure(
            "conflict",
            f"[plugins.pick] {info.name} names {picked!r}, which does not offer this {info.kind}; "
            f"name one of those that do: {', '.join(owners)}",
        )
    both = " and ".join(f"{one.distribution} {one.version}" for one in rivals)
    return info.with_failure(
        "conflict",
        f"two distributions offer the {info.kind} {info.name}: {both}; pick one in the configuration: "
        f'[plugins.pick] {info.name} = "{owners[0]}"',
    )


def _make_info(point: EntryPoint, kind: Kind) -> PluginInfo:
    if point.dist is None:
        return PluginInfo(point.name, kind, "unknown", "0", point.value)
    return PluginInfo(point.name, kind, canonical(point.dist.name), point.dist.version, point.value)
