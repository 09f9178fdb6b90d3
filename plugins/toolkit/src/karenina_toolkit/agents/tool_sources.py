"""Tool sources: the origin of an agent's tools other than those of its workspace. Plugins provide them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool


class ToolError(Exception):
    """A call that a tool refused or could not carry out. The message is for the model: the problem and its cure."""


class ToolSource(Protocol):
    """A source of tools from outside Karenina (such as MCP servers) for the models that are configured for it.

    One object serves all models of all runs, and keeps no state of them. It must be light: it imports what a session
    requires when one is opened.
    """

    @property
    def name(self) -> str:
        """The name in messages."""

    def applies_to(self, model: ModelConfig) -> bool:
        """Return whether the model is configured to have tools of this source."""

    def check(self, model: ModelConfig) -> None:
        """Raise `AdapterConfigError` for a configuration that would fail every item. Starts nothing.

        Called before a run, for models to which the source applies.
        """

    def open(self, model: ModelConfig, workspace: Path | None) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """Return a session: the model's tools, for the duration of the block. Entered and left in the same task.

        The run opens one for each model and workspace and shares it among all agents of that model that work there,
        also at the same time. `workspace` is the folder in which they work, or None. The tools work until the block
        ends, even if their server fails: a call that fails raises `ToolError`, which the model reads, and a call of a
        tool whose server is lost raises `PortError`, which ends the agent's run. Raises `PortError` if the tools are
        not available: of category `connection` if a retry may help, and `permanent` if the configuration is wrong.
        """
