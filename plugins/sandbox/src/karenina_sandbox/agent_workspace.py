"""Tools for an agent in the workspace of an answer, and the record of its changes, for the sandbox's stages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from karenina_core import ArtifactKeys as Keys
from karenina_core.namespaces import read_owned
from karenina_sandbox.capture.folders import MOST_KEPT
from karenina_sandbox.check_running import MOST_LISTED
from karenina_sandbox.diffs.reading import DiffError, UnreadableDiff
from karenina_sandbox.fields import CheckFields
from karenina_sandbox.limits.command_limiter import command_limiter
from karenina_sandbox.patch import WORKSPACE_PATCH, Patch, printable_name
from karenina_sandbox.settings import find_provider, make_policy
from karenina_sandbox.steering import may_steer
from karenina_sandbox.task_files import TaskFiles
from karenina_sandbox.work import COMMAND_SECONDS, MOST_RECORDED, RunCommand, WorkspaceWork, is_recordable
from karenina_toolkit.agent_work import AGENT_WORK, LEFT_FILES, LeftFiles, works_in_folder
from karenina_toolkit.files.bounded_files import format_size
from karenina_toolkit.files.workspace_copy import WorkspaceError
from karenina_toolkit.kept_files import keep_file
from karenina_toolkit.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_sandbox.settings import SandboxSettings

_FENCE: Final = lazy_pattern(r"([ \t]*)(```+(?![^\n]*`)|~~~+)([^\n]*)")
MOST_SHOWN: Final = 100_000
"""The maximum number of characters of a patch in a result. A longer one is also kept as a file."""


async def prepare_work(context: VerificationContext) -> None:
    """Set AGENT_WORK to an object that records the agent's work. It offers the tool `run_command` if a sandbox is
    configured. Without a workspace, AGENT_WORK is None, unless the answer is recorded, since its work may be recorded,
    too. If the question's folder cannot be used, the item ends with an error, except for a recorded answer, for which
    AGENT_WORK is then None.
    """
    workspace = context.find_artifact(Keys.WORKSPACE_PATH)
    if workspace is None and not context.answer_is_recorded():
        context.set_artifact(AGENT_WORK, None)
        return
    settings = cast("SandboxSettings", context.settings)
    run_command = None
    if settings.sandbox is not None:
        policy = make_policy(settings, seconds=COMMAND_SECONDS)
        provider = find_provider(context.plugins, settings.sandbox)
        run_command = partial(RunCommand, provider, policy, command_limiter(settings.sandbox_concurrency))
    try:
        files = await TaskFiles.find(context.config, context.question).held(context)
    except WorkspaceError as error:
        if not context.answer_is_recorded():  # otherwise, the folder may be missing, unless there are checks
            context.mark_error(str(error))
        context.set_artifact(AGENT_WORK, None)
        return
    works = workspace is not None and works_in_folder(context.config, context.answering_model)
    context.set_artifact(AGENT_WORK, WorkspaceWork(files, workspace, run_command, by_model=works))


async def capture_work(context: VerificationContext) -> None:
    """Set the artifacts WORKSPACE_PATCH and LEFT_FILES, which are empty without work, and describe the changes in the
    result unless `workspace_keep` is "none". A recorded patch that cannot be used here ends the item with an error. For
    a question with an `answer_file`, the code of an answer without other changes is the work.
    """
    work = context.get_artifact(AGENT_WORK)
    answer_file = read_owned(CheckFields, context.question.extra).answer_file
    if not isinstance(work, WorkspaceWork) or not (work.by_model or work.diff is not None or answer_file):
        context.set_artifact(WORKSPACE_PATCH, Patch())
        context.set_artifact(LEFT_FILES, LeftFiles({}))
        return
    patch, problem = work.patch, None
    if work.diff is not None:
        try:
            patch = await work.files.read_diff(work.diff)
        except UnreadableDiff as error:
            context.mark_error(f"the answer is not judged, because its patch cannot be used here: {error}")
            return
        except DiffError as error:
            problem = str(error)
        except WorkspaceError as error:
            context.mark_error(str(error))
            return
    elif answer_file and not patch:
        answer = context.find_artifact(Keys.FINAL_AI_MESSAGE) or context.get_artifact(Keys.RAW_LLM_RESPONSE)
        try:
            patch = await work.files.with_file(answer_file, last_code(answer).encode("utf-8", "surrogateescape"))
        except (OSError, WorkspaceError) as error:
            context.mark_error(f"the answer cannot be written to {answer_file!r}: {error}")
            return
    context.set_artifact(WORKSPACE_PATCH, patch)
    context.set_artifact(LEFT_FILES, _left_files(patch, problem))
    keep = cast("SandboxSettings", context.settings).workspace_keep
    if keep == "none" or (patch is None and problem is None):
        return
    context.set_result_field("workspace", await context.in_thread(_describe, work.files, patch, problem, keep == "all"))


def last_code(answer: str) -> str:
    """Return the last block of code in an answer, or the whole answer if it has none. A block that the answer does not
    close ends with the answer. The indentation of a block, as in a list, is no part of its code.
    """
    code, opened, indent = answer, "", 0
    lines: list[str] = []
    for line in answer.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if not opened and mark is not None:
            opened, indent, lines = mark[2], len(mark[1]), []
        elif opened and mark is not None and mark[2].startswith(opened) and not mark[3].strip():
            code, opened = "".join(lines), ""
        elif opened:
            lines.append(line[min(indent, len(line) - len(line.lstrip(" \t"))) :])
    return "".join(lines) if opened and any(map(str.strip, lines)) else code


def _left_files(patch: Patch | None, problem: str | None) -> LeftFiles:
    """Return the contents of the files in a patch. If there is a `problem`, or the changes are too large to be stored,
    return none and the reason. A missing patch is taken to be too large.
    """
    if problem is None and (patch is None or not is_recordable(patch)):
        limits = f"{format_size(MOST_KEPT)} for a file and {format_size(MOST_RECORDED)} in total"
        problem = f"the changes are too large to be stored with the reply (the limits are {limits})"
    if patch is None or problem is not None:
        return LeftFiles({}, problem)
    return LeftFiles({one.path: one.content for one in patch.entries if one.kind == "file" and one.content is not None})


def _describe(files: TaskFiles, patch: Patch | None, problem: str | None, with_files: bool) -> dict[str, Any]:
    """Return a description of an agent's changes for the result, or of the `problem` if there is no patch, and store a
    long patch as a file of the item. With `with_files`, each changed file is stored, too.
    """
    if patch is None:
        return {"problem": problem}
    text = patch.text().encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if len(text) > MOST_SHOWN:
        keep_file("workspace.patch", text.encode(), media_type="text/x-diff")
    changes = []
    for one in patch.entries:
        change: dict[str, Any] = {"path": printable_name(one.path), "kind": one.kind}
        if one.kind == "file":
            change |= {"size": one.size, "sha256": one.sha256}
            if with_files and one.content is not None:
                keep_file(one.path, one.content)
        if files.is_restored(one.path):
            change["restored"] = True
        elif may_steer(one.path):
            change["may_steer"] = True
        changes.append(change)
    return {
        "patch": text[:MOST_SHOWN],
        "changes": changes[:MOST_LISTED],
        "changed": len(changes),
        "left_out": list(patch.left_out),
    }
