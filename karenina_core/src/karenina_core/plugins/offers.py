"""`Plugins`: what the plugins offer, typed, hook by hook."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from karenina_core.known import CORE, missing_adapter
from karenina_core.models.adapters import OfferedAdapter
from karenina_core.plugins import hookspecs
from karenina_core.plugins.discovery import GROUPS, Kind, Selection, canonical
from karenina_core.plugins.hookspecs import karenina_adapters, karenina_settings
from karenina_core.plugins.registry import STAGE_HOOKS, PluginError, Registry
from karenina_core.plugins.specifications import GROUP, Specifications, installed
from karenina_core.stages.stage import OfferedStage
from karenina_core.wording import nearest

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core.models.prompts import PromptTask

logger = logging.getLogger("karenina")


class Plugins(Registry):
    """The plugins of one process: those found through entry points, and those registered by hand.

    `discover()` makes the usual one; `Plugins()` is empty, for tests and for programs that choose for themselves.
    """

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
        chosen = selection if selection is not None else Selection.of()
        specified = [point for point in found or () if point.group == GROUP]
        if specified:
            plugins = cls(Specifications.load([*entry_points(group=GROUP), *specified], chosen))
        else:
            plugins = cls(installed(Selection(block=chosen.block, pick=chosen.pick)))
        for group, kind in GROUPS.items():
            if kinds is not None and kind not in kinds:
                continue
            listed = entry_points(group=group) if found is None else [point for point in found if point.group == group]
            plugins._add_group(listed, kind, chosen)
        if kinds is not None:
            return plugins
        installed_names = {name for info in plugins.describe() for name in (info.name, info.distribution)}
        installed_names |= {CORE, *plugins.specifications.names()}
        for name in sorted(one for one in chosen.block | chosen.only if not {one, canonical(one)} & installed_names):
            hint = nearest(name, installed_names)
            logger.warning("the plugin selection names %r, and no installed plugin is called so%s", name, hint)
        plugins._index()
        return plugins

    def stages(self) -> tuple[OfferedStage, ...]:
        """All stages that are offered, sorted by name and distribution."""
        if "stages" not in self._offered:
            found = []
            for hook, slot in STAGE_HOOKS.items():
                for one in self.offers(getattr(hookspecs, hook)):
                    self._check_stage(one.value, slot, hook, one.plugin)
                    if self._admitted("stage", one.value.name, one.plugin):
                        found.append(OfferedStage(one.value, one.distribution, one.version))
            self._offered["stages"] = sorted(found, key=lambda one: (one.stage.name, one.distribution))
        return tuple(self._offered["stages"])

    def adapters(self) -> tuple[OfferedAdapter, ...]:
        """All adapters that are offered, sorted by interface and distribution."""
        if "adapters" not in self._offered:
            found = [
                OfferedAdapter(one.value, one.distribution, one.version)
                for one in self.offers(karenina_adapters)
                if self._admitted("adapter", one.value.interface, one.plugin)
            ]
            self._offered["adapters"] = sorted(found, key=lambda one: (one.spec.interface, one.distribution))
        return tuple(self._offered["adapters"])

    def adapter(self, interface: str) -> OfferedAdapter:
        """The adapter of that interface name.

        Raises `PluginError` where there is none (with the distribution that has it, or the nearest name), where it
        failed to load, and where two distributions offer it.
        """
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
        raise PluginError(missing_adapter(interface, [one.spec.interface for one in self.adapters()]))

    def prompt_instructions(self, task: str, interface: str) -> tuple[str, ...]:
        """What plugins add to the prompt of `task` for judges of `interface`, in the order of the plugins' names."""
        found = self._manager.hook.karenina_prompt_instructions(task=task, interface=interface)
        return tuple(sorted(text for text in found if text))

    def settings_models(self) -> list[tuple[type[BaseModel], str]]:
        """The settings models of no stage, of stages and of executors, each with the distribution that has it."""
        found = [(offer.value, offer.distribution) for offer in self.offers(karenina_settings)]
        found += [(one.stage.settings, one.distribution) for one in self.stages() if one.stage.settings is not None]
        return found + self._settings

    def prompt_tasks(self) -> list[PromptTask]:
        """Return what the stages ask of models."""
        return [task for one in self.stages() for task in one.stage.prompts]

    def add_settings(self, model: type[BaseModel], distribution: str) -> None:
        """Make the fields of `model` names of the configuration, owned by `distribution`. For owners of hooks."""
        if (model, distribution) not in self._settings:
            self._settings.append((model, distribution))
