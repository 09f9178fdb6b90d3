"""The hooks of the core for adapters, prompts and settings.

A plugin is any object (a class, a module, an instance) whose functions are marked with `@hookimpl` and named like a
hook. It is named by an entry point in one of the groups `karenina.stages`, `karenina.adapters` or `karenina.plugins`.
An implementation may take fewer arguments than its specification.

The hooks for stages are in `karenina_core.stages.hookspecs`. Other hooks belong to the distribution that provides the
extension point. It specifies them with `@hookspec` in a module that imports nothing but `karenina_core.hooks` at run
time, and names the module in the entry-point group `karenina.hookspecs`. The module may define `offered(plugins)`,
which is called after plugins that implement one of its hooks have been loaded or registered, and may set
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
    """Provide adapters, which connect to models, each under an interface name."""


@hookspec
def karenina_prompt_instructions(task: str, interface: str) -> str | None:
    """Return instructions to add to the prompt of `task` for judges using `interface`, or None.

    Called for each prompt.
    """


@hookspec
def karenina_settings() -> Sequence[type[BaseModel]]:
    """Provide settings models for settings that no stage owns; each setting has exactly one owner."""
