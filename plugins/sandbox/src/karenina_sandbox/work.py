"""What an agent does in the workspace of an answer: the tool `run_command`, and the record of its work."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from karenina_core.models.ports import ErrorCategory, PortError
from karenina_sandbox.capture.folders import apply_patch, compare_folders
from karenina_sandbox.patch import Patch, PatchEntry
from karenina_sandbox.sandbox import CannotStart, CommandResult, Policy, SandboxError
from karenina_toolkit.agent_work import AgentWork
from karenina_toolkit.agents.tool_sources import ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.models.ports import Tool
    from karenina_sandbox.limits.command_limiter import CommandLimiter
    from karenina_sandbox.sandbox import SandboxProvider
    from karenina_sandbox.task_files import TaskFiles

MOST_RECORDED: Final = 20_000_000
"""The maximum total size of the changed files that are stored with an agent's reply."""
COMMAND_SECONDS: Final = 120.0
"""The time limit for a command of an agent."""


class RunCommand:
    """The tool that runs a command in a workspace, isolated by a sandbox."""

    name = "run_command"
    description = (
        "Run a command in the workspace, in a sandbox without a network, and return its exit code and output. The "
        f"command is a list of words; for a shell, write ['sh', '-c', '...']. It may take {COMMAND_SECONDS:g} seconds, "
        "and no process outlives it."
    )
    schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "command": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "The command and its arguments, such as ['python', '-m', 'pytest'].",
            }
        },
        "required": ["command"],
    }
    origin = "the sandbox"

    def __init__(self, provider: SandboxProvider, policy: Policy, limiter: CommandLimiter, folder: Path) -> None:
        self._provider = provider
        self._policy = policy
        self._limiter = limiter
        self._folder = folder

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Run the command in the sandbox, and return its exit code and output as text for a model. Raises `ToolError`
        if it cannot be started, and `PortError` if the sandbox fails.

        The message of a `ToolError` is sent to the model.
        """
        command: Sequence[str] = arguments["command"]
        if not command[0] or any("\0" in word for word in command):
            raise ToolError("the command is empty, or contains a null character")
        try:
            async with self._limiter.slot(), self._provider.open(self._folder, self._policy, in_place=True) as sandbox:
                result = await sandbox.run(command, seconds=COMMAND_SECONDS)
        except CannotStart as error:
            raise ToolError(str(error)) from None
        except SandboxError as error:
            raise PortError(f"the agent's sandbox failed: {error}", category=ErrorCategory.PERMANENT) from error
        return describe_result(result)


def describe_result(result: CommandResult) -> str:
    """Return a text for a model with the exit code of a command, or the limit that stopped it, its output and its error
    output, with a note where they were cut off.
    """
    how = f"stopped: it reached the limit of {result.stopped_by}" if result.stopped_by else f"exit code {result.exit}"
    parts = [how]
    for name, content, cut in (
        ("output", result.output, result.output_cut),
        ("error output", result.error_output, result.error_cut),
    ):
        if content:
            note = "\n[the rest is left out]" if cut else ""
            parts.append(f"{name}:\n{content.decode('utf-8', 'replace')}{note}")
    return "\n".join(parts)


class WorkspaceWork(AgentWork):
    """The work in the workspace of one answer, which is a copy of a question's folder.

    `patch` is what was recorded last: None if nothing was. `diff` is the work in a recorded answer.
    """

    def __init__(
        self,
        files: TaskFiles,
        workspace: Path | None,
        run_command: Callable[[Path], Tool] | None,
        *,
        by_model: bool,
    ) -> None:
        self.by_model = by_model
        self.patch: Patch | None = None
        self.diff: bytes | None = None
        self.files = files
        self._workspace = workspace
        self._run_command = run_command

    def tools(self, folder: Path) -> tuple[Tool, ...]:
        """Return `run_command`, if there is a sandbox."""
        return () if self._run_command is None else (self._run_command(folder),)

    async def record(self) -> Mapping[str, Any] | None:
        """Set `patch` to what the agent changed, and return it as a JSON-compatible dict, or None if it is too large or
        not known.

        It is not known if the model has no copy of the question's folder to work in.
        """
        if not self.by_model or self._workspace is None or self._workspace == self.files.source:
            return None
        self.patch = await asyncio.to_thread(changes_of, self.files.source, self._workspace)
        return self.patch.to_json() if is_recordable(self.patch) else None

    async def restore(self, recorded: Mapping[str, Any]) -> None:
        """Make the recorded changes in the workspace, if there is one, in place of those of an earlier turn. A recorded
        diff is only stored in `diff`. Raises `PortError` if the changes do not fit.
        """
        try:
            if "diff" in recorded:
                self.diff = str(recorded["diff"]).encode("utf-8", "surrogateescape")
                return
            earlier, self.patch = self.patch, Patch.from_json(recorded)
            if self._workspace is None:
                return
            if not earlier:
                await asyncio.to_thread(apply_patch, self.patch, self._workspace)
                return
            async with self.files.copy() as folder:  # what an earlier turn changed may have been changed back
                await asyncio.to_thread(apply_patch, self.patch, folder)
                difference = await asyncio.to_thread(compare_folders, self._workspace, folder)
            await asyncio.to_thread(apply_patch, difference, self._workspace)
        except (ValueError, TypeError, KeyError, OSError) as error:
            message = f"the recorded work of the agent cannot be restored: {error}"
            raise PortError(message, category=ErrorCategory.PERMANENT) from error


def is_recordable(patch: Patch) -> bool:
    """Return whether a patch is complete, and small enough to be stored with a reply."""
    return patch.is_complete and sum(len(one.content or b"") for one in patch.entries) <= MOST_RECORDED


def changes_of(source: Path, workspace: Path) -> Patch:
    """Return the changes in `workspace` since it was copied from `source`, as a patch.

    The copy contains the targets of links instead of the links, which is no change.
    """
    patch = compare_folders(source, workspace)
    return Patch(tuple(one for one in patch.entries if not _is_followed_link(one, source)), patch.left_out)


def _is_followed_link(entry: PatchEntry, source: Path) -> bool:
    """Return whether a difference is only that a copy contains the target of a link of the source instead of it."""
    place = source / entry.path
    parents = [place, *(source / part for part in Path(entry.path).parents)]
    if entry.kind not in ("file", "directory") or not any(part.is_symlink() for part in parents):
        return False
    if entry.kind == "directory":
        return place.is_dir()
    return place.is_file() and hashlib.sha256(place.read_bytes()).hexdigest() == entry.sha256
