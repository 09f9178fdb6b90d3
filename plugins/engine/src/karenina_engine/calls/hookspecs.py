"""The hook for agent tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hook_policy import HookPolicy
from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_toolkit.agents.tool_sources import ToolSource


@hookspec
@HookPolicy(stability="provisional")
def karenina_tool_sources() -> Sequence[ToolSource]:
    """Return tool sources for agents. They are opened only if they apply to a model in the run."""
