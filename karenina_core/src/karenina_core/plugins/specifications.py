"""The hook specifications of the core and of other distributions with extension points."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint
from types import ModuleType
from typing import Any, Final, NamedTuple

import pluggy

from karenina_core.api_version import version_mismatch
from karenina_core.catalog import CORE, __version__, install_command, official_first, read_catalog
from karenina_core.hooks import PROJECT
from karenina_core.plugins.discovery import PluginInfo, Selection, installed, load_entry_points
from karenina_core.text import did_you_mean

GROUP: Final = "karenina.hookspecs"

_CORE: Final = PluginInfo("core", "hooks", CORE, __version__, "", "loaded")
_CORE_MODULES: Final = ("karenina_core.stages.hookspecs", "karenina_core.plugins.hookspecs")
"""Imported by name, because these modules belong to higher layers."""


@dataclass(frozen=True)
class HookOwner:
    """A module that contains hook specifications, and its entry point."""

    module: ModuleType
    info: PluginInfo

    @cached_property
    def hooks(self) -> list[str]:
        """The names of the hooks, in the order in which the module defines them."""
        parse = pluggy.PluginManager(PROJECT).parse_hookspec_opts
        return [name for name in vars(self.module) if parse(self.module, name) is not None]


class Specifications(NamedTuple):
    """The hooks that plugins may implement, grouped by owner, with the core first.

    `problems` contains entry points whose specifications cannot be used.
    """

    owners: tuple[HookOwner, ...]
    problems: tuple[PluginInfo, ...]

    @classmethod
    def load(cls, points: Iterable[EntryPoint], selection: Selection) -> Specifications:
        """Import the modules named by `points`, and return their specifications together with the core's. If two
        modules specify the same hook, neither is used, or only the core's if one is the core's. Entry points that are
        not used or cannot be loaded are listed in `problems`.
        """
        loaded = list(load_entry_points(points, "hooks", selection, _owner))
        problems = [info for info, owner in loaded if owner is None]
        owners = [owner for _, owner in loaded if owner is not None]
        accepted = [HookOwner(import_module(name), _CORE._replace(target=name)) for name in _CORE_MODULES]
        for one in owners:
            rivals = [other for other in (*accepted, *owners) if other is not one and {*one.hooks} & {*other.hooks}]
            if rivals:
                problems.append(one.info.with_failure("conflict", _conflict(one, rivals[0])))
            else:
                accepted.append(one)
        return cls(tuple(accepted), tuple(problems))

    def why_missing(self, hook: str) -> str:
        """Explain why there is no specification for `hook`, and how to fix it."""
        owner = read_catalog()["hooks"].get(hook)
        for info in self.problems:
            if info.distribution == owner:
                return f"the hooks of {owner} {info.version} cannot be used: {info.failure}"
        if owner is None:
            return "no installed distribution specifies it"
        if any(True for _ in Distribution.discover(name=owner)):
            return f"{owner} is installed without its entry points; reinstall it"
        return f"{owner} is not installed: {install_command(owner)}"


@cache
def installed_specifications(selection: Selection, *more: EntryPoint) -> Specifications:
    """Return the installed specifications, loaded once per process. `selection` may block some of them."""
    return Specifications.load([*installed().select(group=GROUP), *more], selection)


class PluginManager(pluggy.PluginManager):
    """A pluggy manager that checks implementations against specifications, and suggests names for unknown hooks.

    Hooks specified by packages of this project that are not installed are ignored.
    """

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        """Return the options of a hook implementation, or None for other attributes. Raises `PluginValidationError` if
        it is a wrapper or async, has an argument that its hook does not, implements a hook that is neither specified
        nor one of this project's, or is named after a hook but not marked with `@hookimpl`. Hooks of this project that
        are not installed are treated as optional.
        """
        if name.startswith("__") and name.endswith("__"):
            return None  # no hook is named like a special method, and pluggy looks at each for long
        options = super().parse_hookimpl_opts(plugin, name)
        hook = name if options is None else options["specname"] or name
        spec: Any = getattr(vars(self.hook).get(hook), "spec", None)
        if options is not None and (options["wrapper"] or options["hookwrapper"]):
            why = "each plugin is called separately; use plain @hookimpl, and return what the plugin offers"
            raise pluggy.PluginValidationError(plugin, f"{name} is a wrapper, but {why}")
        if options is not None and spec is None:
            if hook not in read_catalog()["hooks"]:
                names = [candidate for candidate, caller in vars(self.hook).items() if caller.has_spec()]
                raise pluggy.PluginValidationError(plugin, f"unknown hook {hook!r}{did_you_mean(hook, names)}")
            options["optionalhook"] = True
        written: Any = getattr(plugin, name) if options or spec else None  # properties may raise
        if options is not None and (inspect.iscoroutinefunction(written) or inspect.isasyncgenfunction(written)):
            raise pluggy.PluginValidationError(plugin, f"{name} is never awaited; write def {name}(...), without async")
        if options is None and spec is not None and written is not spec.function:
            raise pluggy.PluginValidationError(plugin, f"{name} is not marked with @hookimpl, so it has no effect")
        taken = () if options is None or spec is None else pluggy.HookImpl(plugin, name, written, options).argnames
        if unknown := [argument for argument in taken if argument not in spec.argnames]:
            right = f"has no argument {unknown[0]!r}; write def {name}({', '.join(spec.argnames)})"
            raise pluggy.PluginValidationError(plugin, f"the hook {hook} {right}")
        return options


def _owner(module: object, info: PluginInfo) -> HookOwner:
    """Return the hook owner for a module. Raises `TypeError` if `module` is not a module. Raises `ImportError` if it
    specifies no hooks, or if it was made for another version of the plugin interface.
    """
    if not isinstance(module, ModuleType):
        raise TypeError(f"{info.target} is not a module")
    if failure := version_mismatch(module):
        raise ImportError(failure)
    owner = HookOwner(module, info._replace(state="loaded"))
    if not owner.hooks:
        raise ImportError(f"{info.target} does not specify any hooks; mark its functions with karenina_core.hookspec")
    return owner


def _conflict(one: HookOwner, other: HookOwner) -> str:
    """Return an error message for two distributions that specify the same hook, with a fix."""
    hook = next(name for name in one.hooks if name in other.hooks)
    both = sorted((one.info, other.info), key=lambda info: (official_first(info.distribution), info))
    return (
        f"two distributions specify the hook {hook} ({' and '.join(f'{i.distribution} {i.version}' for i in both)}); "
        f'block one of them with [plugins] block = ["{both[-1].distribution}"]'
    )
