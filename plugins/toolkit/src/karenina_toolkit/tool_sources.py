"""Tool sources: where the tools of an agent come from that are not those of its workspace. Plugins bring them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool


class ToolSource(Protocol):
    """A way to get tools from outside of Karenina (MCP servers, say) for the models that ask for it.

    One object serves all models of all runs, and holds nothing of them. It is light: what it needs to open a session it
    imports when it opens one.
    """

    @property
    def name(self) -> str:
        """What it is called in messages."""

    def applies_to(self, model: ModelConfig) -> bool:
        """Whether the model is configured to have tools of this source."""

    def check(self, model: ModelConfig) -> None:
        """Look, before a run starts and without starting anything, for what would fail every item.

        Called for models that want the source. Raises `AdapterConfigError`.
        """

    def open(self, model: ModelConfig, workspace: Path | None) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """A session: the model's tools, as long as the block lasts. Entered and left in one and the same task.

        The run opens one for each model and workspace and shares it among all agents of that model that work there, at
        the same time too. `workspace` is the folder in which they work; None where they have none. The tools serve
        until the block ends, whatever happens to what stands behind them: a call that fails raises `ToolError`, which
        the model reads, and one of a tool that is gone raises `PortError`, which ends the agent's run. Raises
        `PortError` where the tools cannot be had: of category `connection` where another attempt may help, and
        `permanent` where the configuration is wrong.
        """
