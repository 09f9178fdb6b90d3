"""The work of an agent in the workspace of an answer, as exchanged by stages: `AGENT_WORK`, and `LEFT_FILES`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from karenina_core.artifacts.artifact import ArtifactKey
from karenina_core.errors import PluginError
from karenina_core.models.adapters import AdapterSpec, AgentTier
from karenina_toolkit.plugin_lookup import find_adapter, plugins_of

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.models.model import ModelConfig
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


class LeftFiles(NamedTuple):
    """The files that the model under test created or changed in its workspace.

    `contents` are their bytes by relative path, in the order of the paths. If they are not known, `problem` is the
    reason.
    """

    contents: Mapping[str, bytes]
    problem: str | None = None


LEFT_FILES: Final = ArtifactKey("left_files", LeftFiles)
"""The files that the model under test left in its workspace, set by `CaptureWorkspace` of karenina-sandbox."""


def _agent_of(config: VerificationConfig, model: ModelConfig) -> AdapterSpec | None:
    """Return a model's adapter, or None if the interface is unknown, or the adapter has no agent port or returns
    recordings.
    """
    try:
        spec = find_adapter(plugins_of(config), model.interface).spec
    except PluginError:
        return None  # the run itself reports the unknown interface
    return None if spec.recorded or spec.agent is None else spec


def has_unconfined_tools(config: VerificationConfig, model: ModelConfig) -> bool:
    """Return whether a model is an agent whose adapter runs tools by itself (its own or those of the model's MCP
    servers), and never in a sandbox. False for recordings and unknown interfaces.
    """
    spec = _agent_of(config, model)
    if spec is None or spec.program is not None:
        return False
    return spec.tier is AgentTier.DEEP_AGENT or (spec.starts_tools and bool(model.mcp_urls_dict))


def works_in_folder(config: VerificationConfig, model: ModelConfig) -> bool:
    """Return whether a model answers a question with a folder by working there, as agents with their own file tools do
    and, with a sandbox, models whose adapter has an agent port.

    Recorded answers and unknown interfaces do not count.
    """
    spec = _agent_of(config, model)
    has_sandbox = config.has("sandbox") and bool(config.setting("sandbox"))
    return spec is not None and (spec.tier is AgentTier.DEEP_AGENT or has_sandbox)
