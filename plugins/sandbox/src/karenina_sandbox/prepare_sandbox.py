"""The stages that give an agent its sandbox, and record what it left in its workspace.

They import `agent_workspace`, which does this, only when they are executed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from karenina_core import ArtifactKeys as Keys
from karenina_core import Question, Skip, Slot, Stage, VerificationConfig
from karenina_core.stages.stage import ServiceNeed
from karenina_sandbox.patch import WORKSPACE_PATCH
from karenina_sandbox.settings import SandboxSettings, find_provider, sandbox_problem
from karenina_toolkit.agent_work import AGENT_WORK, LEFT_FILES, has_unconfined_tools
from karenina_toolkit.files.workspace_copy import MOST_BYTES
from karenina_toolkit.plugin_lookup import plugins_of

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_core.data.trust import Trust

logger = logging.getLogger("karenina")

OF_WORKSPACES: Final[Mapping[str, object]] = {
    "workspace_root": None,
    "workspace_copy": True,
    "workspace_max_bytes": MOST_BYTES,
}


class _WorkspaceStage(Stage):
    """A stage for the answers to questions with a folder."""

    scope = "answer"
    settings = SandboxSettings
    reads: ClassVar[Mapping[str, object]] = OF_WORKSPACES

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Include the stage for questions with a folder."""
        return question.workspace_path is not None or Skip("the question has no workspace_path")


class PrepareSandbox(_WorkspaceStage):
    """Gives agents the tool `run_command`, and a recorder of the answer's work. It runs after `PrepareWorkspace`."""

    name = "PrepareSandbox"
    optional = frozenset({Keys.WORKSPACE_PATH})
    produces = frozenset({AGENT_WORK})
    after = frozenset({Slot.VALIDATE_TEMPLATE})
    before = frozenset({Slot.GENERATE_ANSWER})

    def before_any_run(self, config: VerificationConfig) -> None:
        """Warn about settings that have no effect without a sandbox or with the chosen one, and about agents that it
        does not confine. Raises `ConfigError` if there is no such sandbox.

        Some adapters run an agent's tools by themselves, without the sandbox.
        """
        settings = config.section(SandboxSettings)
        if settings.sandbox is None:
            given = [name for name in ("sandbox_image", "sandbox_python", "sandbox_mounts") if getattr(settings, name)]
            if given:
                logger.warning("%s has no effect without a sandbox; add --sandbox", given[0])
        elif not find_provider(plugins_of(config), settings.sandbox).needs_image and settings.sandbox_image:
            logger.warning("sandbox_image has no effect with the sandbox %r, which uses no image", settings.sandbox)
        if settings.sandbox not in (None, "none"):
            models = (*config.core.answering_models, *config.core.parsing_models)
            for model in {model.id: model for model in models}.values():
                if has_unconfined_tools(config, model):
                    logger.warning(
                        "model %r: the sandbox does not confine the agent's own tools (%s), only run_command; do not "
                        "allow tools that run commands, or run Karenina in a container",
                        *(model.id, model.interface),
                    )

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ServiceNeed]:
        """Return a `ServiceNeed` with the problem if a sandbox is chosen but cannot be used, and otherwise nothing.
        Raises `ConfigError` if it does not exist or lacks its image, or if a benchmark chose the sandbox "none".
        """
        if not questions or config.section(SandboxSettings).sandbox is None:
            return ()
        problem = sandbox_problem(config, plugins_of(config))
        return () if problem is None else (ServiceNeed(problem),)

    async def execute(self, context: VerificationContext) -> None:
        """Set AGENT_WORK to an object with the tool `run_command` and the record of what the agent does. It is None if
        the question has no workspace, unless a recorded answer contains such a record.
        """
        from karenina_sandbox.agent_workspace import prepare_work

        await prepare_work(context)


class CaptureWorkspace(_WorkspaceStage):
    """Records what the model under test changed in its workspace, as a patch against the question's folder.

    The patch is part of the stored reply, so it is always that of the answer that is judged. The result field
    `workspace` of the extensions contains the patch as text, and describes the changes.
    """

    name = "CaptureWorkspace"
    requires = frozenset({AGENT_WORK, Keys.RAW_LLM_RESPONSE})
    optional = frozenset({Keys.FINAL_AI_MESSAGE})
    produces = frozenset({WORKSPACE_PATCH, LEFT_FILES})
    after = frozenset({Slot.GENERATE_ANSWER})
    before = frozenset({Slot.PARSE_TEMPLATE})

    async def execute(self, context: VerificationContext) -> None:
        """Set the artifacts WORKSPACE_PATCH and LEFT_FILES, and describe the changes in the result. A recorded patch
        that cannot be used here ends the item with an error.
        """
        from karenina_sandbox.agent_workspace import capture_work

        await capture_work(context)
