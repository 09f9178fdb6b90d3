"""Investigations by agentic judges: an agent works in a copy of the workspace and ends with a report."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from karenina_agentic.prepare_workspace import create_folder, make_cleanup, run_to_completion
from karenina_agentic.settings import AgenticSettings
from karenina_agentic.workspace_copy import copy_folder
from karenina_agentic.workspace_paths import WorkspaceError, printable_path, resolve_root, unique_name
from karenina_core import ArtifactKeys as Keys
from karenina_core import ModelConfig, VerificationContext
from karenina_core.models.ports import AgentOptions, Message, PortError
from karenina_toolkit import traces


@dataclass(frozen=True, slots=True)
class Investigation:
    """An agent's whole conversation as text, and its final report."""

    trace: str
    report: str


class InvestigationFailed(Exception):
    """Raised when an investigation ends without a report. `trace` is the conversation so far as text, or None."""

    def __init__(self, message: str, trace: str | None) -> None:
        super().__init__(message)
        self.trace = trace


@asynccontextmanager
async def judge_copy(context: VerificationContext) -> AsyncIterator[Path]:
    """Yield the path of a copy of the answer's workspace for one judge; the copy is removed when the block ends.

    The answering agent's files that cannot be copied (such as the links out of the workspace root in a virtual
    environment) are left out with a warning; as an error, they would let an agent escape judgement by creating some.
    For the same reason, a workspace that the agent removed is judged as empty. Raises `WorkspaceError` if there is no
    workspace to copy.
    """
    workspace = context.find_artifact(Keys.WORKSPACE_PATH)
    if workspace is None:
        raise WorkspaceError("the answer has no workspace: the stage PrepareWorkspace did not create one")
    settings = context.config.section(AgenticSettings)
    # If a link is at this path, the answering agent chose its target, so the target's files are not the agent's work.
    gone = workspace.is_symlink() or not workspace.is_dir()
    if gone and not settings.workspace_copy:
        raise WorkspaceError(f"the answer's workspace {workspace} no longer exists")
    root = resolve_root(settings.workspace_root)

    def left_out(place: Path, why: str) -> None:
        context.log.warning("%s %s and is not shown to the judge", printable_path(place), why)

    folder = create_folder(workspace.parent / unique_name(workspace.name, "judge", None))
    try:
        if gone:
            context.log.warning(
                "the answering agent removed its workspace %s: the judge gets an empty folder", workspace
            )
        else:
            most = settings.workspace_max_bytes
            await run_to_completion(
                context, lambda: copy_folder(workspace, folder.path, root, left_out, most_bytes=most)
            )
        yield folder.path
    finally:
        await context.leave_workspace(folder.path)
        await make_cleanup(context, folder)()


async def investigate(
    context: VerificationContext, model: ModelConfig, messages: list[Message], options: AgentOptions, turns_setting: str
) -> Investigation:
    """Run an agent until it reports. Raises `InvestigationFailed`, also if it reaches the turn limit or times out.

    `turns_setting` is the name of the setting for the turn limit, for the error message.
    """
    try:
        reply = await context.agent(model).run(messages, options)
    except PortError as error:
        done = error.partial.trace if error.partial is not None else ()
        raise InvestigationFailed(
            f"the investigation failed: {error}", traces.render_trace(done) if done else None
        ) from error
    trace = traces.render_trace(reply.trace)
    if reply.limit_reached:
        raise InvestigationFailed(
            f"the investigation reached its limit of {options.max_turns} turns before it reported: raise "
            f"{turns_setting}",
            trace,
        )
    report = traces.final_ai_message(reply.trace)
    if report is None:
        raise InvestigationFailed("the investigation ended without a report", trace)
    if reply.finish_reason == "length":
        raise InvestigationFailed("the report was cut off at max_tokens: raise it for this judge", trace)
    return Investigation(trace, report)
