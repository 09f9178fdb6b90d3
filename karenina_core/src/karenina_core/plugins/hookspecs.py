"""The core's hooks for adapters, prompts and settings.

A plugin is any object (a class, a module, an instance) that has functions marked with `@hookimpl` and named after a
hook. It is named by an entry point in one of the groups `karenina.stages`, `karenina.adapters` and `karenina.plugins`.
Implementations may take fewer arguments than the specification.

Hooks for stages are in `karenina_core.stages.hookspecs`. All other hooks belong to the distribution that has the
extension point. It marks them with `@hookspec` in a module that imports nothing but `karenina_core.hooks` at run time,
and lists this module in the entry-point group `karenina.hookspecs`. If the module defines `offered(plugins)`, that
function is called after plugins with one of its hooks have been loaded or registered. The module may also set
`karenina_api`. `karenina plugins --hooks` lists all hooks.
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
    """Return adapters, which connect to models. Each must have an interface name of its own."""


@hookspec
def karenina_prompt_instructions(task: str, interface: str) -> str | None:
    """Return instructions to add to the prompt of `task` for judges with the given `interface`, or None.

    This is called for each prompt.
    """


@hookspec
def karenina_settings() -> Sequence[type[BaseModel]]:
    """Return settings models for settings that no stage owns. Every setting must have exactly one owner."""
