"""The hooks of the core for adapters, prompts and settings.

A plugin is any object (a class, a module, an instance) with functions marked `@hookimpl` and named like a hook. An
entry point in one of the groups `karenina.stages`, `karenina.adapters` and `karenina.plugins` names it. Implementations
may take fewer arguments than the specification.

Hooks for stages are in `karenina_core.stages.hookspecs`. Others belong to the distribution with the extension point. It
marks them `@hookspec` in a module that imports nothing but `karenina_core.hooks` at run time, and names this module in
the entry-point group `karenina.hookspecs`. If the module defines `offered(plugins)`, it is called after plugins with
one of its hooks have been loaded or registered. It may also set `karenina_api`. `karenina plugins --hooks` lists all
hooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from karenina_core.models.adapters import AdapterSpec


@hookspec
def karenina_adapters() -> Sequence[AdapterSpec]:
    """Return adapters, each with its own interface name. They connect to models."""


@hookspec
def karenina_prompt_instructions(task: str, interface: str) -> str | None:
    """Return instructions to add to the prompt of `task` for judges with this `interface`, or None.

    Called for each prompt.
    """


@hookspec
def karenina_settings() -> Sequence[type[BaseModel]]:
    """Return settings models for settings that no stage owns. Each setting must have exactly one owner."""
