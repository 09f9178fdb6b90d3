"""The hook that provides tools for agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_toolkit.agents.tool_sources import ToolSource


@hookspec
@HookPolicy(stability="provisional")
def karenina_tool_sources() -> Sequence[ToolSource]:
    """Return tool sources for agents. Sources are only opened if they apply to a model in the run."""
