"""The hooks for agents: the tools that they have, and the sandbox for programs that these tools start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.config import VerificationConfig
    from karenina_core.models.ports import ProgramSandbox
    from karenina_core.plugins import Plugins
    from karenina_toolkit.agents.tool_sources import ToolSource


@hookspec
@HookPolicy(stability="provisional")
def karenina_tool_sources() -> Sequence[ToolSource]:
    """Return tool sources for agents. Sources are only opened if they apply to a model in the run."""


@hookspec
@HookPolicy(stability="provisional")
def karenina_program_sandbox(config: VerificationConfig, plugins: Plugins) -> ProgramSandbox | None:
    """Return the sandbox that the configuration chooses for programs that agents start, or None."""
