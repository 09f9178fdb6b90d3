"""Tools from plugins: sources of tools for agents, in addition to their workspaces, and search tools for judges."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool


class ToolError(Exception):
    """Raised when a tool refuses a call or fails. The message tells the model what is wrong and how to fix it."""


class ToolSource(Protocol):
    """A source of tools from outside Karenina (such as MCP servers) for the models configured to use it.

    One object serves all models of all runs, and stores nothing about them. Loading it must be cheap: anything needed
    only by a session is imported when the session is opened.
    """

    @property
    def name(self) -> str:
        """The source's name, as used in messages."""

    def applies_to(self, model: ModelConfig) -> bool:
        """Return whether the model is configured to have tools from this source."""

    def check(self, model: ModelConfig) -> None:
        """Raise `AdapterConfigError` if the configuration would make every item fail. Does not start a server or
        process.

        Called before a run, for each model to which the source applies.
        """

    def open(self, model: ModelConfig, workspace: Path | None) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Return a context manager that yields the model's tools. It is entered and left in the same task.

        The run opens one session for each model and workspace and shares it among all of that model's agents working
        there, even if they run concurrently. `workspace` is the folder in which they work, or None. The tools can be
        called until the block ends, even if their server fails: a failed call raises `ToolError`, which the model
        reads, and a call to a tool whose server is lost raises `PortError`, which ends the agent's run. Raises
        `PortError` if the tools are not available, with category `connection` if a retry may help and `permanent` if
        the configuration is wrong.
        """


class SearchTool(Protocol):
    """A tool that looks something up, selected in the configuration by its `name`. One object serves all items."""

    name: ClassVar[str]

    def unavailable(self) -> str | None:
        """Return why the tool cannot be used here and how to fix it, or None if it can be used. Makes no request."""

    async def search(self, query: str) -> str:
        """Return the search results as text for a judge.

        If this method raises, the caller continues without results. The category of a `PortError` indicates whether a
        retry may help.
        """
