"""The work of an agent in the workspace of an answer, as exchanged by stages: `AGENT_WORK`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from karenina_core.artifacts.artifact import ArtifactKey

if TYPE_CHECKING:
    from karenina_core.models.ports import Tool


class AgentWork(ABC):
    """What agents may do in a workspace besides reading and writing files, and the record of an answer's work.

    It is a `WorkRecorder`. If `by_model` is true, the model under test works in the workspace. Otherwise, only judges
    do, or the work was recorded earlier.
    """

    by_model: bool

    @abstractmethod
    def tools(self, folder: Path) -> tuple[Tool, ...]:
        """Return the tools that work in `folder`, such as one that runs commands."""

    @abstractmethod
    async def record(self) -> Mapping[str, Any] | None:
        """Return what has changed in the answer's workspace. See `WorkRecorder`."""

    @abstractmethod
    async def restore(self, recorded: Mapping[str, Any]) -> None:
        """Change the answer's workspace to the recorded state. See `WorkRecorder`."""


AGENT_WORK: Final = ArtifactKey[AgentWork | None]("agent_work", AgentWork)
"""The work on the answer. None if there is no workspace, and no recording can contain work."""
