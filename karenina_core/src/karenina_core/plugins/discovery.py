"""Which entry points are installed, and which of them may be loaded: names are read, and nothing is imported."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from typing import Final, Literal

from karenina_core.known import CORE

Kind = Literal["stage", "adapter", "other", "hooks"]
State = Literal["found", "loaded", "failed", "blocked", "conflict"]

GROUPS: Final[dict[str, Kind]] = {
    "karenina.stages": "stage",
    "karenina.adapters": "adapter",
    "karenina.plugins": "other",
}


@dataclass(frozen=True, slots=True)
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
            tuple(sorted((pick or {}).items())),
        )

    def allows(self, info: PluginInfo) -> bool:
        """Whether the entry point may be loaded. `only` never leaves out the core's own: no plan could do without.

        Nor does it leave out specifications of hooks: without plugins they have no effect.
        """
        names = {info.name, info.distribution}
        always = info.distribution == CORE or info.kind == "hooks"
        return not names & self.block and (not self.only or always or bool(names & self.only))


@dataclass(frozen=True, slots=True)
class Sifted:
    """The entry points of one group that may be loaded, and what became of the others."""

    usable: tuple[tuple[PluginInfo, EntryPoint], ...]
    set_aside: tuple[PluginInfo, ...]


def sift(points: Iterable[EntryPoint], kind: Kind, selection: Selection) -> Sifted:
    """Sort the entry points of one group by what the selection says, with one owner at most for each name.

    A name that several distributions offer and nobody picked is usable from none of them: which one stands must not
    depend on which is found first. Neither is a name whose pick does not offer it. The order of `points` has no effect.
    """
    allowed: dict[str, dict[str, tuple[PluginInfo, EntryPoint]]] = {}
    set_aside: list[PluginInfo] = []
    for point in sorted(points, key=_order):
        info = _info(point, kind)
        if selection.allows(info):
            allowed.setdefault(info.name, {}).setdefault(info.distribution, (info, point))
        else:
            set_aside.append(replace(info, state="blocked", failure="left out by the plugin selection"))
    picked = dict(selection.pick)
    usable: list[tuple[PluginInfo, EntryPoint]] = []
    for name, owners in allowed.items():
        infos = [info for info, _ in owners.values()]
        chosen = picked.get(name)
        if chosen in owners:
            usable.append(owners[chosen])
            why = f"{chosen} is picked for {name}"
            set_aside += [replace(info, state="blocked", failure=why) for info in infos if info.distribution != chosen]
        elif chosen is not None:
            why = (
                f"[plugins.pick] {name} names {chosen!r}, which does not offer this {kind}; "
                f"name one of those that do: {', '.join(owners)}"
            )
            set_aside += [replace(info, state="conflict", failure=why) for info in infos]
        elif len(infos) > 1:
            why = (
                f"two distributions offer the {kind} {name}: "
                f"{' and '.join(f'{info.distribution} {info.version}' for info in infos)}; pick one in the "
                f'configuration: [plugins.pick] {name} = "{infos[0].distribution}"'
            )
            set_aside += [replace(info, state="conflict", failure=why) for info in infos]
        else:
            usable += owners.values()
    return Sifted(tuple(usable), tuple(set_aside))


def load(point: EntryPoint) -> object:
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


def _order(point: EntryPoint) -> tuple[str, str, str]:
    return point.name, point.dist.name if point.dist is not None else "", point.value


def _info(point: EntryPoint, kind: Kind) -> PluginInfo:
    distribution = point.dist
    name = distribution.name if distribution is not None else "unknown"
    version = distribution.version if distribution is not None else "0"
    return PluginInfo(point.name, kind, name, version, point.value)
