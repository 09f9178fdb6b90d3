"""Load plugins, register them, and call their hooks. A failure is data: it is listed, and stops only who needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

import pluggy

from karenina_core.artifacts.slots import Slot
from karenina_core.errors import KareninaError
from karenina_core.known import install_line, known
from karenina_core.plugins.discovery import Kind, PluginInfo, Selection, described, load_all
from karenina_core.plugins.specifications import Specifications, installed, other_version

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core.stages.stage import Stage

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

STAGE_HOOKS: Final[dict[str, Slot | None]] = {**{slot.hook: slot for slot in Slot}, "karenina_extra_stages": None}


class PluginError(KareninaError):
    """Something that the configuration needs comes from a plugin that cannot be used."""


@dataclass(frozen=True, slots=True)
class Offer(Generic[T_co]):
    """One object that a plugin offers, or its implementation of a hook, with the distribution that it comes from."""

    value: T_co
    distribution: str
    version: str
    plugin: object


class Registry:
    """The plugins that are registered, what became of every entry point, and whose each offer is."""

    def __init__(self, specifications: Specifications | None = None) -> None:
        self.specifications = specifications if specifications is not None else installed(Selection())
        self._manager = self.specifications.manager()
        self._infos: dict[tuple[Kind, str, str], PluginInfo] = {}
        self._plugins: dict[int, tuple[object, str, str]] = {}
        self._offered: dict[str, list[Any]] = {}
        self._settings: list[tuple[type[BaseModel], str]] = []
        for info in self.specifications.problems:
            self._note(info)

    def register(self, plugin: object, *, distribution: str = "this-program", version: str = "0") -> None:
        """Add a plugin that no entry point names. Raises `PluginError` where it does not fit the specifications."""
        failure = self._register(plugin, distribution, version)
        if failure is not None:
            raise PluginError(f"the plugin {plugin!r} cannot be registered: {failure}")
        name = getattr(plugin, "__name__", type(plugin).__name__)
        info = PluginInfo(name, "other", distribution, version, repr(plugin), "loaded")
        self._note(replace(info, ignored=self._ignored(plugin)))
        self._index(plugin)

    def describe(self) -> list[PluginInfo]:
        """Every entry point with its state, sorted by kind and name."""
        return sorted(self._infos.values(), key=lambda info: (info.kind, info.name, info.distribution))

    def problem_with(self, kind: Kind, name: str) -> str | None:
        """Why `name` is not usable although an entry point of it was found, or None."""
        bad = [info for info in self.describe() if (info.kind, info.name) == (kind, name) and info.state != "loaded"]
        return "; ".join(f"{info.distribution} {info.version}: {info.failure}" for info in bad) or None

    def why_absent(self, distribution: str) -> str:
        """Return why what `distribution` offers is not there, with the cure."""
        for info in self.describe():
            if info.distribution == distribution and info.failure is not None:
                return f"{distribution} {info.version} cannot be used: {info.failure}"
        return f"{distribution} is not installed: {install_line(distribution)}"

    def implementations(self, hook: Callable[P, R]) -> list[Offer[Callable[P, R]]]:
        """Return what implements `hook`, which is named by its specification. None is called; arguments have names.

        Raises `PluginError` if `hook` is not specified, with the cure.
        """
        caller: pluggy.HookCaller | None = getattr(self._manager.hook, hook.__name__, None)
        if caller is None or not caller.has_spec():
            why = self.specifications.why_missing(hook.__name__)
            raise PluginError(f"the hook {hook.__name__} cannot be used: {why}")
        implementing = {id(found.plugin) for found in caller.get_hookimpls()}
        return [
            Offer(partial(self._call_one, plugin, hook.__name__), distribution, version, plugin)
            for plugin, distribution, version in self._plugins.values()
            if id(plugin) in implementing
        ]

    def each(self, hook: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Iterator[Offer[R]]:
        """Call `hook` of each plugin and yield what it returns. One that raises is listed as failed and left out."""
        for found in self.implementations(hook):
            try:
                result = found.value(*args, **kwargs)
            except Exception as error:
                self.reject(found, error)
            else:
                yield Offer(result, found.distribution, found.version, found.plugin)

    def offers(self, hook: Callable[P, Sequence[T]], *args: P.args, **kwargs: P.kwargs) -> list[Offer[T]]:
        """Return what plugins offer through `hook`, each with the distribution that it comes from.

        A hook without arguments is called once, and again after a plugin was registered.
        """
        kept: list[Offer[T]] | None = self._offered.get(hook.__name__)
        if kept is not None and not kwargs:
            return kept
        offers = [
            Offer(one, found.distribution, found.version, found.plugin)
            for found in self.each(hook, *args, **kwargs)
            for one in found.value or ()
        ]
        if not kwargs:
            self._offered[hook.__name__] = offers
        return offers

    def call(self, hook: Callable[P, Sequence[T]], *args: P.args, **kwargs: P.kwargs) -> list[T]:
        """Return what plugins offer through `hook`, in one list."""
        return [offer.value for offer in self.offers(hook, *args, **kwargs)]

    def reject(self, offer: Offer[object], error: Exception) -> None:
        """List the plugin of an offer that cannot be used as failed."""
        for info in self.describe():
            if info.distribution == offer.distribution and info.state == "loaded":
                self._note(info.refused("failed", described(error)))

    def _add_group(self, points: Iterable[EntryPoint], kind: Kind, selection: Selection) -> None:
        loaded: dict[int, tuple[object, list[PluginInfo]]] = {}
        for info, plugin in load_all(points, kind, selection):
            if info.state == "found":
                loaded.setdefault(id(plugin), (plugin, []))[1].append(info)
            else:
                self._note(info)
        for plugin, infos in loaded.values():
            self._admit(plugin, kind, infos)

    def _admit(self, plugin: object, kind: Kind, infos: list[PluginInfo]) -> None:
        """Register an object that one or several entry points name, and hold each name to what is offered."""
        fresh = id(plugin) not in self._plugins
        failure = self._register(plugin, infos[0].distribution, infos[0].version)
        named = offered = {info.name for info in infos}
        if failure is None and kind != "other":
            try:
                offered = set(self._offered_names(plugin, kind))
            except Exception as error:
                failure = described(error)
        if fresh and id(plugin) in self._plugins and (failure is not None or not offered & named):
            self._forget(plugin)
        what = ", ".join(sorted(offered)) or "nothing"
        for info in infos:
            problem = failure
            if failure is None and info.name not in offered:
                problem = (
                    f"the entry point is named {info.name!r}, but {info.target} offers {what}: "
                    f"name it after the {kind} that it offers"
                )
            if problem is not None:
                self._note(info.refused("failed", problem))
            else:
                self._note(replace(info, state="loaded", ignored=self._ignored(plugin)))

    def _admitted(self, kind: Kind, name: str, plugin: object) -> bool:
        """Whether an offer stands: its entry point, where it has one, was neither blocked nor in conflict."""
        info = self._infos.get((kind, name, self._plugins[id(plugin)][1]))
        return info is None or info.state == "loaded"

    def _offered_names(self, plugin: object, kind: Kind) -> list[str]:
        if kind == "adapter":
            return [spec.interface for spec in self._call_one(plugin, "karenina_adapters") or ()]
        names = []
        for hook, slot in STAGE_HOOKS.items():
            for stage in self._call_one(plugin, hook) or ():
                self._check_stage(stage, slot, hook, plugin)
                names.append(stage.name)
        return names

    @staticmethod
    def _check_stage(stage: type[Stage], slot: Slot | None, hook: str, plugin: object) -> None:
        if getattr(stage, "name", None) is None:
            raise PluginError(f"{plugin!r} offers {stage!r} through {hook}, which is no stage with a name")
        if stage.slot is not slot:
            home = "karenina_extra_stages" if stage.slot is None else stage.slot.hook
            raise PluginError(f"stage {stage.name} is offered through {hook}, but says slot = {stage.slot}: use {home}")

    def _register(self, plugin: object, distribution: str, version: str) -> str | None:
        """Register with pluggy; the reason where that is refused."""
        hashing: object = plugin.__hash__
        if hashing is None:
            return "it is not hashable; give its class eq=False"
        failure = other_version(plugin)
        if failure is not None:
            return failure
        if id(plugin) in self._plugins:
            return None
        try:
            self._manager.register(plugin, name=f"{distribution} {id(plugin)}")
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            return described(error)
        self._plugins[id(plugin)] = (plugin, distribution, version)
        self._offered.clear()
        return None

    def _forget(self, plugin: object) -> None:
        self._manager.unregister(plugin)
        del self._plugins[id(plugin)]

    def _call_one(self, plugin: object, hook: str, **arguments: object) -> Any:
        others = [other for other, *_ in self._plugins.values() if other is not plugin]
        results = self._manager.subset_hook_caller(hook, others)(**arguments)
        return results[0] if results else None

    def _ignored(self, plugin: object) -> tuple[str, ...]:
        """The hooks of this project that the plugin implements and nobody specifies, each with the reason."""
        names = [one.name for one in self._manager.get_hookcallers(plugin) or () if not one.has_spec()]
        return tuple(
            f"{name} is ignored: {self.specifications.why_missing(name)}" for name in names if name in known()["hooks"]
        )

    def _index(self, plugin: object = None) -> None:
        """Let the owners of hooks index what is offered: all owners, or those whose hooks `plugin` implements."""
        hooks = None if plugin is None else {one.name for one in self._manager.get_hookcallers(plugin) or ()}
        for owner in self.specifications.owners:
            offered = getattr(owner.module, "offered", None)
            if offered is None or (hooks is not None and not hooks.intersection(owner.hooks)):
                continue
            try:
                offered(self)
            except Exception as error:
                self._note(replace(owner.info, state="failed", failure=f"offered: {described(error)}"))

    def _note(self, info: PluginInfo) -> None:
        self._infos[(info.kind, info.name, info.distribution)] = info
