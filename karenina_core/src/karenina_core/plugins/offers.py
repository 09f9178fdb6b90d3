"""`Plugins`: what the plugins offer, typed, hook by hook."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

import pluggy

from karenina_core.errors import KareninaError
from karenina_core.observers import Listeners, Observers, listen
from karenina_core.plugins.discovery import CORE, GROUPS, Kind, Selection
from karenina_core.plugins.registry import STAGE_HOOKS, PluginError, Registry, described, new_manager
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


class Plugins(Registry):
    """The plugins of one process: those found through entry points, and those registered by hand.

    `discover()` makes the usual one; `Plugins()` is empty, for tests and for programs that choose for themselves.
    """

    def __init__(self) -> None:
        super().__init__()
        self._forget_offers()

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

    def _forget_offers(self) -> None:
        self._stages: tuple[OfferedStage, ...] | None = None
        self._adapters: tuple[OfferedAdapter, ...] | None = None
        self._evaluators: tuple[TraitEvaluator, ...] | None = None

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
        """The settings models of no stage, of stages and of executors, each with the distribution that has it."""
        found: list[tuple[type[BaseModel] | None, str]] = []
        for plugin, models in self._offers("karenina_settings"):
            found += [(model, self._owners[id(plugin)][0]) for model in models]
        found += [(one.stage.settings, one.distribution) for one in self.stages()]
        found += [(executor.settings, owner) for executor, owner in self.owned_executors()]
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
                manager = new_manager()
                try:
                    manager.register(observer)
                    manager.check_pending()
                except (pluggy.PluginValidationError, ValueError, TypeError) as error:
                    raise PluginError(f"an observer of {owner} cannot be used: {described(error)}") from error
                listen(found, manager, observer, owner)
        return Observers(found)

    def _offered_observers(self, plugin: object, config: VerificationConfig) -> Sequence[object]:
        try:
            return self._call_one(plugin, "karenina_observers", config=config) or ()
        except KareninaError:
            raise
        except Exception as error:
            logger.warning("%s observes nothing: %s", " ".join(self._owners[id(plugin)]), described(error))
            return ()

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
