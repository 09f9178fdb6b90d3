"""Find, select, load and register plugins, and relay the hooks. stevedore and pluggy live here and nowhere else.

Failures are data: a plugin that cannot be loaded is listed with its reason, and stops only those who need it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final

import pluggy

from karenina_core import hookspecs
from karenina_core.discovery import CORE, sift
from karenina_core.discovery import GROUPS as GROUPS
from karenina_core.discovery import Kind as Kind
from karenina_core.discovery import PluginInfo as PluginInfo
from karenina_core.discovery import Selection as Selection
from karenina_core.discovery import State as State
from karenina_core.errors import KareninaError
from karenina_core.hookspecs import API_VERSION, PROJECT
from karenina_core.observers import Listeners, Observers, listen
from karenina_core.slots import Slot
from karenina_core.wording import nearest

if TYPE_CHECKING:
    import typer
    from pydantic import BaseModel

    from karenina_core.adapters import AdapterSpec
    from karenina_core.config import VerificationConfig
    from karenina_core.prices import PriceSource
    from karenina_core.rubrics.evaluation import TraitEvaluator
    from karenina_core.run.executors import Executor
    from karenina_core.search import SearchTool
    from karenina_core.stage import Stage
    from karenina_core.tool_sources import ToolSource

logger = logging.getLogger("karenina")

STAGE_HOOKS: Final[dict[str, Slot | None]] = {**{slot.hook: slot for slot in Slot}, "karenina_extra_stages": None}


@dataclass(frozen=True, slots=True)
class OfferedStage:
    """A stage class with the distribution that offers it."""

    stage: type[Stage]
    distribution: str
    version: str


@dataclass(frozen=True, slots=True)
class OfferedAdapter:
    """An adapter with the distribution that offers it."""

    spec: AdapterSpec
    distribution: str
    version: str


class PluginError(KareninaError):
    """Something that the configuration needs comes from a plugin that cannot be used."""


class Plugins:
    """The plugins of one process: those found through entry points, and those registered by hand.

    `discover()` makes the usual one; `Plugins()` is empty, for tests and for programs that choose for themselves.
    """

    def __init__(self) -> None:
        self._manager = _new_manager()
        self._infos: dict[tuple[Kind, str, str], PluginInfo] = {}
        self._owners: dict[int, tuple[str, str]] = {}
        self._plugins: list[object] = []
        self._stages: tuple[OfferedStage, ...] | None = None
        self._adapters: tuple[OfferedAdapter, ...] | None = None
        self._evaluators: tuple[TraitEvaluator, ...] | None = None

    @classmethod
    def discover(
        cls,
        selection: Selection | None = None,
        found: Sequence[EntryPoint] | None = None,
        kinds: Collection[Kind] | None = None,
    ) -> Plugins:
        """Find what is installed, read the names, and load what the selection allows.

        `found` replaces the installed entry points (for tests). The order in which they come has no effect. With
        `kinds` only plugins of these are found, and templates and benchmarks learn nothing from them.
        """
        plugins = cls()
        chosen = selection if selection is not None else Selection.of()
        known: set[str] = {CORE}
        for group, kind in GROUPS.items():
            if kinds is not None and kind not in kinds:
                continue
            listed = entry_points(group=group) if found is None else [point for point in found if point.group == group]
            known.update(name for point in listed for name in (point.name, point.dist.name if point.dist else ""))
            plugins._add_group(group, kind, listed, chosen)
        if kinds is not None:
            return plugins
        for name in sorted((chosen.block | chosen.only) - known):
            hint = nearest(name, known - {""})
            logger.warning("the plugin selection names %r, and no installed plugin is called so%s", name, hint)
        plugins._register_kinds()
        plugins._warn_of_lost_commands()
        return plugins

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

    # ---- what plugins offer

    def stages(self) -> tuple[OfferedStage, ...]:
        """All stages that are offered, sorted by name and distribution."""
        if self._stages is None:
            offered = []
            for hook, slot in STAGE_HOOKS.items():
                for plugin, stages in self._offers(hook):
                    for stage in stages:
                        self._check_stage(stage, slot, hook, plugin)
                        if self._admitted("stage", stage.name, plugin):
                            offered.append(OfferedStage(stage, *self._owners[id(plugin)]))
            self._stages = tuple(sorted(offered, key=lambda one: (one.stage.name, one.distribution)))
        return self._stages

    def adapters(self) -> tuple[OfferedAdapter, ...]:
        """All adapters that are offered, sorted by interface and distribution."""
        if self._adapters is None:
            offered = [
                OfferedAdapter(spec, *self._owners[id(plugin)])
                for plugin, specs in self._offers("karenina_adapters")
                for spec in specs
                if self._admitted("adapter", spec.interface, plugin)
            ]
            self._adapters = tuple(sorted(offered, key=lambda one: (one.spec.interface, one.distribution)))
        return self._adapters

    def adapter(self, interface: str) -> OfferedAdapter:
        """The adapter of that interface name.

        Raises `PluginError` where there is none (with the distribution that has it, or the nearest name), where it
        failed to load, and where two distributions offer it.
        """
        from karenina_core.known import install_line, known
        from karenina_core.wording import nearest

        found = [one for one in self.adapters() if one.spec.interface == interface]
        problem = self.problem_with("adapter", interface)
        if len(found) == 1:
            return found[0]
        if found:
            names = " and ".join(f"{one.distribution} {one.version}" for one in found)
            raise PluginError(
                f"two plugins offer the adapter {interface!r}: {names}; block one of them: "
                f'[plugins] block = ["{found[-1].distribution}"]'
            )
        if problem:
            raise PluginError(f"the adapter {interface!r} cannot be used: {problem}")
        owner = known()["adapters"].get(interface)
        if owner is not None:
            raise PluginError(f"the adapter {interface!r} is not installed: {install_line(owner)}")
        installed = [one.spec.interface for one in self.adapters()]
        raise PluginError(f"there is no adapter {interface!r}{nearest(interface, installed)}")

    def prompt_instructions(self, task: str, interface: str) -> tuple[str, ...]:
        """What plugins add to the prompt of `task` for judges of `interface`, in the order of the plugins' names."""
        found = self._manager.hook.karenina_prompt_instructions(task=task, interface=interface)
        return tuple(sorted(text for text in found if text))

    def settings_models(self) -> list[tuple[type[BaseModel], str]]:
        """The settings models of stages and executors and those of neither, each with the distribution that has it."""
        found = [(one.stage.settings, one.distribution) for one in self.stages()]
        found += [(executor.settings, owner) for executor, owner in self.owned_executors()]
        for plugin, models in self._offers("karenina_settings"):
            found += [(model, self._owners[id(plugin)][0]) for model in models]
        return [(model, owner) for model, owner in found if model is not None]

    def trait_evaluators(self) -> tuple[TraitEvaluator, ...]:
        """What scores rubric traits, in the order in which each trait is offered: by falling precedence, then name."""
        if self._evaluators is None:
            found = [one for _, offers in self._offers("karenina_trait_evaluators") for one in offers]
            self._evaluators = tuple(sorted(found, key=lambda one: (-one.precedence, one.name)))
        return self._evaluators

    def search_tools(self) -> tuple[SearchTool, ...]:
        """The ways to look something up, sorted by name."""
        found = [one for _, offers in self._offers("karenina_search_tools") for one in offers]
        return tuple(sorted(found, key=lambda one: one.name))

    def price_sources(self) -> tuple[PriceSource, ...]:
        """The lists of prices, sorted by name."""
        found = [one for _, offers in self._offers("karenina_prices") for one in offers]
        return tuple(sorted(found, key=lambda one: one.name))

    def tool_sources(self) -> tuple[ToolSource, ...]:
        """The sources of tools for agents, sorted by name."""
        return tuple(source for source, _ in self.owned_tool_sources())

    def owned_tool_sources(self) -> list[tuple[ToolSource, str]]:
        """The sources of tools, sorted by name, each with the distribution that offers it."""
        found = [
            (one, self._owners[id(plugin)][0])
            for plugin, offers in self._offers("karenina_tool_sources")
            for one in offers
        ]
        return sorted(found, key=lambda pair: (pair[0].name, pair[1]))

    def executors(self) -> tuple[Executor, ...]:
        """The ways to work through a run, sorted by name; `asyncio`, the core's own, is always among them."""
        return tuple(executor for executor, _ in self.owned_executors())

    def owned_executors(self) -> list[tuple[Executor, str]]:
        """The ways to work through a run, sorted by name, each with the distribution that offers it."""
        from karenina_core.run.executors import InThisProcess

        found: list[tuple[Executor, str]] = [(InThisProcess(), CORE)]
        for plugin, offers in self._offers("karenina_executors"):
            found += [(one, self._owners[id(plugin)][0]) for one in offers]
        return sorted(found, key=lambda pair: (pair[0].name, pair[1]))

    def executor(self, name: str) -> Executor:
        """The executor of that name.

        Raises `PluginError` where there is none (with the distribution that has it, or the nearest name), where its
        plugin failed to load, and where two distributions offer it.
        """
        from karenina_core.known import install_line, known

        found = [(one, owner) for one, owner in self.owned_executors() if one.name == name]
        if len(found) == 1:
            return found[0][0]
        if found:
            names = " and ".join(owner for _, owner in found)
            raise PluginError(
                f"two plugins offer the executor {name!r}: {names}; block one of them: "
                f'[plugins] block = ["{found[-1][1]}"]'
            )
        owner = known()["executors"].get(name)
        if owner is not None:
            bad = [info for info in self.describe() if info.distribution == owner and info.state != "loaded"]
            if bad:
                raise PluginError(f"the executor {name!r} of {owner} cannot be used: {bad[0].failure}")
            raise PluginError(f"the executor {name!r} is not installed: {install_line(owner)}")
        raise PluginError(f"there is no executor {name!r}{nearest(name, [one.name for one in self.executors()])}")

    def add_commands(self, app: typer.Typer) -> None:
        """Let plugins add their commands to `app`; one that fails is listed and does not stop the others."""
        for _ in self._each("karenina_commands", app=app):
            pass

    # ---- observers

    def observers(self, config: VerificationConfig | None = None) -> Observers:
        """All who observe a run under `config`: the plugins with such hooks, and what plugins offer for this run.

        Raises the `KareninaError` with which a plugin refuses the run, and `PluginError` for an observer that does not
        fit the specifications.
        """
        found: Listeners = {}
        for plugin in self._plugins:
            owner = " ".join(self._owners[id(plugin)])
            listen(found, self._manager, plugin, owner)
            for observer in self._offered_observers(plugin, config) if config is not None else ():
                manager = _new_manager()
                try:
                    manager.register(observer)
                    manager.check_pending()
                except (pluggy.PluginValidationError, ValueError, TypeError) as error:
                    raise PluginError(f"an observer of {owner} cannot be used: {_describe(error)}") from error
                listen(found, manager, observer, owner)
        return Observers(found)

    def _offered_observers(self, plugin: object, config: VerificationConfig) -> Sequence[object]:
        try:
            return self._call_one(plugin, "karenina_observers", config=config) or ()
        except KareninaError:
            raise
        except Exception as error:
            logger.warning("%s observes nothing: %s", " ".join(self._owners[id(plugin)]), _describe(error))
            return ()

    # ---- inside

    def _warn_of_lost_commands(self) -> None:
        """Say which commands the command line does not offer, because it loads no stages and adapters to start."""
        for impl in self._manager.hook.karenina_commands.get_hookimpls():
            owner = self._owners[id(impl.plugin)][0]
            if not any(info.kind == "other" and info.distribution == owner for info in self._infos.values()):
                logger.warning(
                    "%s adds commands, which are not offered: name the plugin that does in its entry points of the "
                    "group karenina.plugins",
                    owner,
                )

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
                self._note(replace(info, state="failed", failure=_describe(failures[0])))
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
                failure = _describe(error)
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
            return _describe(error)
        self._plugins.append(plugin)
        self._owners[id(plugin)] = (distribution, version)
        self._stages = self._adapters = self._evaluators = None
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
                self._note_failure(plugin, _describe(error))

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
                    self._note_failure(plugin, _describe(error))

    def _note(self, info: PluginInfo) -> None:
        self._infos[(info.kind, info.name, info.distribution)] = info

    def _note_failure(self, plugin: object, failure: str) -> None:
        distribution, _ = self._owners[id(plugin)]
        for info in self.describe():
            if info.distribution == distribution and info.state == "loaded":
                self._note(replace(info, state="failed", failure=failure))


def _new_manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def _noting(failures: list[BaseException]) -> Callable[[Any, EntryPoint, BaseException], None]:
    return lambda _manager, _point, error: failures.append(error)


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


_current: ContextVar[Plugins | None] = ContextVar("karenina_plugins", default=None)
_shared: dict[Selection, Plugins] = {}


def for_commands() -> Plugins:
    """The plugins that may add commands: those of the enclosing `using`, else those installed as no stage or adapter.

    None of the others is imported, so that the command line starts at once.
    """
    chosen = _current.get()
    if chosen is not None:
        return chosen
    kinds: tuple[Kind, ...] = ("other",)
    return Plugins.discover(kinds=kinds)


def current() -> Plugins:
    """The plugins in force: those of the enclosing `using`, else the installed ones, discovered on first need."""
    chosen = _current.get()
    return chosen if chosen is not None else selected(Selection.of())


def selected(selection: Selection) -> Plugins:
    """The installed plugins under a selection, discovered once a process."""
    if selection not in _shared:
        _shared[selection] = Plugins.discover(selection)
    return _shared[selection]


@contextmanager
def using(plugins: Plugins) -> Iterator[Plugins]:
    """Have `plugins` in force within the `with` block, instead of the installed ones."""
    token = _current.set(plugins)
    try:
        yield plugins
    finally:
        _current.reset(token)
