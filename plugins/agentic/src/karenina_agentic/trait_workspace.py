"""The folder of one trait's agent: a copy of the workspace, an empty folder, or none."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from karenina_agentic.investigation import judge_copy
from karenina_agentic.prepare_workspace import make_cleanup
from karenina_agentic.workspace_paths import WorkspaceError, make_slug, unique_name
from karenina_agentic.workspace_removal import CreatedFolder
from karenina_core import ArtifactKeys as Keys
from karenina_core import VerificationContext
from karenina_core.data.rubrics import AgenticRubricTrait


@dataclass(frozen=True, slots=True)
class TraitWorkspace:
    """The `folder` of an agent, the name of the trace's `file` in it, and the path of a copy that is kept."""

    folder: Path | None = None
    file: str | None = None
    kept_file: str | None = None


@asynccontextmanager
async def open_trait_workspace(
    trait: AgenticRubricTrait, response: str | None, context: VerificationContext
) -> AsyncIterator[TraitWorkspace]:
    """Yield the workspace of one trait's agent; it is removed when the block ends. Raises `WorkspaceError`."""
    as_file = trait.materialize_trace and response is not None
    if trait.context_mode == "trace_only" and not as_file:
        yield TraitWorkspace()
        return
    async with judge_copy(context) if trait.context_mode != "trace_only" else _empty_folder(context) as folder:
        if not as_file:
            yield TraitWorkspace(folder)
            return
        file = _free_name(folder)
        _write(folder / file, response or "")
        yield TraitWorkspace(folder, file, _keep(trait, response or "", context) if trait.persist_trace else None)


@asynccontextmanager
async def _empty_folder(context: VerificationContext) -> AsyncIterator[Path]:
    folder = CreatedFolder.temporary("karenina_judge_")
    try:
        yield folder.path
    finally:
        await make_cleanup(context, folder)()


def _free_name(folder: Path) -> str:
    name = "response.txt"
    while (folder / name).exists() or (folder / name).is_symlink():
        name = f"response_{secrets.token_hex(2)}.txt"
    return name


def _keep(trait: AgenticRubricTrait, response: str, context: VerificationContext) -> str:
    """Write the trace beside the workspace or, if there is no workspace, into a new temporary folder."""
    workspace = context.find_artifact(Keys.WORKSPACE_PATH)
    folder = workspace.parent if workspace is not None else Path(tempfile.mkdtemp(prefix="karenina_trace_"))
    # The name marks the trace as created by a run, so that later copies leave it out.
    base = unique_name(workspace.name, "judge", None) if workspace is not None else make_slug(context.question.id)
    file = folder / f"{base}_trace_{make_slug(trait.name)}_{secrets.token_hex(4)}.txt"
    _write(file, response)
    return str(file)


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8", errors="replace") as new:
            new.write(text)
    except OSError as error:
        raise WorkspaceError(f"the trace could not be written to {file}: {error.strerror}") from None
