"""Tools from plugins: tool sources for agents, and search tools for judges."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import ProgramSandbox, Tool


class ToolError(Exception):
    """Raised if a tool rejects a call or fails. The model sees the message and may try again."""


@runtime_checkable
class ToolSource(Protocol):
    """A source of external tools, such as MCP servers.

    One instance serves all models of all runs, and must not store anything about them. Loading it should be cheap, so
    import what a session needs when the session is opened.
    """

    @property
    def name(self) -> str:
        """The source's name, for use in messages."""

    def applies_to(self, model: ModelConfig) -> bool:
        """Return whether the model is configured to use this source."""

    def check(self, model: ModelConfig) -> None:
        """Raise `AdapterConfigError` if the tools cannot work as configured. Must not start anything.

        This is called before a run for each model that uses the source.
        """

    def programs(self, model: ModelConfig) -> Sequence[Sequence[str]]:
        """Return the commands that `open` starts. Before a run, it is checked that they can run in its sandbox."""

    def open(
        self, model: ModelConfig, workspace: Path | None, sandbox: ProgramSandbox | None = None
    ) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Return a context manager that yields the model's tools for agents in the folder `workspace`, if any, whose
        programs must be started in `sandbox`, if any. It is entered and exited in the same task, and raises `PortError`
        if the tools are not available.

        The run opens one session for each workspace and set of `mcp_` fields, which all agents working there at the
        same time share, so only these fields of `model` may determine the tools. The tools can be called until the
        block ends. A failed call raises `ToolError`, whose message the model sees. If the server is lost, the call
        raises `PortError`, which ends the agent's run. If the tools are not available, the category of the error is
        `connection` if a retry may help, and `permanent` if the configuration is wrong.
        """


@runtime_checkable
class SearchTool(Protocol):
    """A search tool, selected in the configuration by its `name`. One instance serves all items."""

    name: ClassVar[str]

    def unavailable(self) -> str | None:
        """Return the reason why the tool cannot be used, with a fix, or None. Must not make a request."""

    async def search(self, query: str) -> str:
        """Search, and return the results as text for a judge. If this raises, the judge continues without results.
        Raise a `PortError`, whose category determines whether to retry.
        """
