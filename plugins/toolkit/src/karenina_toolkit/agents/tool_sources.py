"""Tools from plugins: sources of tools for agents, and search tools for judges."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool


class ToolError(Exception):
    """Raised if a tool refuses a call or fails. The model reads the message and may try again."""


class ToolSource(Protocol):
    """A source of tools from outside Karenina, such as MCP servers.

    One instance serves all models of all runs, and must not store anything about them. It should be cheap to load:
    import what a session needs when the session is opened.
    """

    @property
    def name(self) -> str:
        """The source's name, as used in messages."""

    def applies_to(self, model: ModelConfig) -> bool:
        """Return whether the model is configured to use this source."""

    def check(self, model: ModelConfig) -> None:
        """Raise `AdapterConfigError` if the tools cannot work as configured. Must not start anything.

        Called before a run for each model that uses the source.
        """

    def open(self, model: ModelConfig, workspace: Path | None) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Return a context manager that yields the model's tools. It is entered and left in the same task.

        The run opens one session for each model and workspace, shared by all agents that work there at the same time.
        `workspace` is their folder, or None. The tools can be called until the block ends. A failed call raises
        `ToolError`, which the model reads. If the server is lost, the call raises `PortError`, which ends the agent's
        run. Raises `PortError` if the tools are not available, with category `connection` if a retry may help and
        `permanent` if the configuration is wrong.
        """


class SearchTool(Protocol):
    """A search tool, selected in the configuration by its `name`. One instance serves all items."""

    name: ClassVar[str]

    def unavailable(self) -> str | None:
        """Return why the tool cannot be used and how to fix it, or None. Must not make a request."""

    async def search(self, query: str) -> str:
        """Search, and return the results as text for a judge.

        If this raises, the judge continues without results. Raise a `PortError` whose category says whether to retry.
        """
