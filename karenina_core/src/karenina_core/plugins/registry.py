"""Load plugins, register them, and call their hooks. A failure is data: it is listed, and stops only who needs it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, Final

import pluggy

from karenina_core import hookspecs
from karenina_core.errors import KareninaError
from karenina_core.hookspecs import API_VERSION, PROJECT
from karenina_core.plugins.discovery import Kind, PluginInfo, Selection, sift
from karenina_core.slots import Slot

if TYPE_CHECKING:
    from karenina_core.stage import Stage

logger = logging.getLogger("karenina")

STAGE_HOOKS: Final[dict[str, Slot | None]] = {**{slot.hook: slot for slot in Slot}, "karenina_extra_stages": None}


class PluginError(KareninaError):
    """Something that the configuration needs comes from a plugin that cannot be used."""


class Registry:
    """The plugins that are registered, what became of every entry point, and whose each offer is."""

    def __init__(self) -> None:
        self._manager = new_manager()
        self._infos: dict[tuple[Kind, str, str], PluginInfo] = {}
        self._owners: dict[int, tuple[str, str]] = {}
        self._plugins: list[object] = []

    def register(self, plugin: object, *, distribution: str = "this-program", version: str = "0") -> None:
        """Add a plugin that no entry point names. Raises `PluginError` where it does not fit the specifications."""
        if plugin.__hash__ is None:
            raise PluginError(
                f"the plugin {plugin!r} cannot be registered: it is not hashable; give its class eq=False"
            )
        failure = self._register(plugin, distribution, version)
        if failure is not None:
            raise PluginError(f"the plugin {plugin!r} cannot be registered: {failure}")
        name = getattr(plugin, "__name__", type(plugin).__name__)
        self._note(PluginInfo(name, "other", distribution, version, repr(plugin), "loaded"))
        self._register_kinds()

    def describe(self) -> list[PluginInfo]:
        """Every entry point with its state, sorted by kind and name."""
        return sorted(self._infos.values(), key=lambda info: (info.kind, info.name, info.distribution))

    def problem_with(self, kind: Kind, name: str) -> str | None:
        """Why `name` is not usable although an entry point of it was found, or None."""
        bad = [info for info in self.describe() if (info.kind, info.name) == (kind, name) and info.state != "loaded"]
        return "; ".join(f"{info.distribution} {info.version}: {info.failure}" for info in bad) or None

    def _forget_offers(self) -> None:
        """Called where a plugin came: what was asked before may be more now."""

    def _add_group(self, group: str, kind: Kind, points: Iterable[EntryPoint], selection: Selection) -> None:
        from stevedore import ExtensionManager, NamedExtensionManager

        sifted = sift(points, kind, selection)
        for info in sifted.set_aside:
            self._note(info)
        ExtensionManager.ENTRY_POINT_CACHE[group] = [point for _, point in sifted.usable]
        loaded: dict[int, tuple[object, list[PluginInfo]]] = {}
        for info, _ in sifted.usable:
            failures: list[BaseException] = []
            plugin: object = None
            try:
                manager: NamedExtensionManager[Any] = NamedExtensionManager(
                    group, [info.name], on_load_failure_callback=_noting(failures)
                )
                plugin = manager[info.name].plugin if not failures else None
            except (Exception, SystemExit) as error:
                failures.append(error)
            if failures:
                self._note(replace(info, state="failed", failure=described(failures[0])))
            else:
                loaded.setdefault(id(plugin), (plugin, []))[1].append(info)
        for plugin, infos in loaded.values():
            self._admit(plugin, kind, infos)

    def _admit(self, plugin: object, kind: Kind, infos: list[PluginInfo]) -> None:
        """Register an object that one or several entry points name, and hold each name to what is offered."""
        fresh = not any(plugin is other for other in self._plugins)
        failure = self._register(plugin, infos[0].distribution, infos[0].version)
        offered: set[str] | None = None
        if failure is None and kind != "other":
            try:
                offered = set(self._offered_names(plugin, kind))
            except Exception as error:
                failure = described(error)
        unwanted = offered is not None and not offered & {info.name for info in infos}
        if fresh and id(plugin) in self._owners and (failure is not None or unwanted):
            self._forget(plugin)
        for info in infos:
            if failure is not None:
                self._note(replace(info, state="failed", failure=failure))
            elif offered is not None and info.name not in offered:
                what = ", ".join(sorted(offered)) or "nothing"
                self._note(
                    replace(
                        info,
                        state="failed",
                        failure=f"the entry point is named {info.name!r}, but {info.target} offers {what}: "
                        f"name it after the {kind} that it offers",
                    )
                )
            else:
                self._note(replace(info, state="loaded"))

    def _admitted(self, kind: Kind, name: str, plugin: object) -> bool:
        """Whether an offer stands: its entry point, where it has one, was neither blocked nor in conflict."""
        info = self._infos.get((kind, name, self._owners[id(plugin)][0]))
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
        wanted = getattr(plugin, "karenina_api", API_VERSION)
        if wanted != API_VERSION:
            return f"it is built for version {wanted} of the plugin interface; this core has version {API_VERSION}"
        if any(plugin is other for other in self._plugins):
            return None
        try:
            self._manager.register(plugin, name=f"{distribution} {id(plugin)}")
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            return described(error)
        self._plugins.append(plugin)
        self._owners[id(plugin)] = (distribution, version)
        self._forget_offers()
        return None

    def _forget(self, plugin: object) -> None:
        self._manager.unregister(plugin)
        self._plugins = [other for other in self._plugins if other is not plugin]
        del self._owners[id(plugin)]

    def _call_one(self, plugin: object, hook: str, **arguments: object) -> Any:
        others = [other for other in self._plugins if other is not plugin]
        results = self._manager.subset_hook_caller(hook, others)(**arguments)
        return results[0] if results else None

    def _each(self, hook: str, **arguments: object) -> Iterator[tuple[object, Any]]:
        """What each plugin answers to `hook`; one that raises is listed as failed and left out."""
        implementing = {id(impl.plugin) for impl in getattr(self._manager.hook, hook).get_hookimpls()}
        for plugin in list(self._plugins):
            if id(plugin) not in implementing:
                continue
            try:
                yield plugin, self._call_one(plugin, hook, **arguments)
            except Exception as error:
                self._note_failure(plugin, described(error))

    def _offers(self, hook: str) -> Iterator[tuple[object, Sequence[Any]]]:
        return ((plugin, offers) for plugin, offers in self._each(hook) if offers)

    def _register_kinds(self) -> None:
        """Make the primitives and trait kinds that plugins offer known to templates and benchmarks."""
        self._hand_on("karenina_primitives", "karenina_core.templates", "register_primitive")
        self._hand_on("karenina_trait_kinds", "karenina_core.rubrics", "register_trait_kind")

    def _hand_on(self, hook: str, home: str, register: str) -> None:
        if not getattr(self._manager.hook, hook).get_hookimpls():
            return
        take = getattr(import_module(home), register)
        for plugin, offers in self._offers(hook):
            for one in offers:
                try:
                    take(one)
                except ValueError as error:
                    self._note_failure(plugin, described(error))

    def _note(self, info: PluginInfo) -> None:
        self._infos[(info.kind, info.name, info.distribution)] = info

    def _note_failure(self, plugin: object, failure: str) -> None:
        distribution, _ = self._owners[id(plugin)]
        for info in self.describe():
            if info.distribution == distribution and info.state == "loaded":
                self._note(replace(info, state="failed", failure=failure))


def new_manager() -> pluggy.PluginManager:
    """A manager that holds plugins to the specifications."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def _noting(failures: list[BaseException]) -> Callable[[Any, EntryPoint, BaseException], None]:
    return lambda _manager, _point, error: failures.append(error)


def described(error: BaseException) -> str:
    """An error as a failure says it: its type, and its message where it has one."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
