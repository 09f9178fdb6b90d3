"""The hook for search tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_toolkit.agents.tool_sources import SearchTool


@hookspec
@HookPolicy(stability="provisional")
def karenina_search_tools() -> Sequence[SearchTool]:
    """Return search tools, which are used to check the claims in an answer. Configurations select them by name."""
