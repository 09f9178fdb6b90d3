"""The stage for slot 1b, which creates the folders in which agents answer and judges investigate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVarTuple, cast

from karenina_agentic.settings import (
    AgenticSettings,
    agentic_traits,
    needs_workspace,
    uses_agentic_parsing,
)
from karenina_agentic.workspace_removal import remove_orphans
from karenina_core import ArtifactKeys as Keys
from karenina_core import Question, Skip, Slot, Stage, VerificationConfig
from karenina_core.data.trust import Trust
from karenina_core.models.ports import SourceFolder
from karenina_core.stages.stage import ModelNeed
from karenina_toolkit.agent_work import works_in_folder
from karenina_toolkit.files.created_folders import CreatedFolder
from karenina_toolkit.files.workspace_copy import (
    CLEANUP_LIST,
    WorkspaceError,
    check_links,
    copy_folder,
    create_folder,
    make_slug,
    resolve_root,
    resolve_source,
    source_folder,
    unique_name,
)

if TYPE_CHECKING:
    from karenina_core import VerificationContext

Ts = TypeVarTuple("Ts")


class PrepareWorkspace(Stage):
    """Gives each answer a folder: a copy of the question's folder or archive, or an empty one.

    Copies are created next to the question's folder, and empty folders in the workspace root. They are removed after
    the last judge unless `workspace_cleanup` is false. If `workspace_copy` is false, answers share the question's own
    folder, which is never removed.

    WORKSPACE_PATH is None if no judge inspects a workspace and neither the root nor the folder is set. If only
    answering models need workspaces, it is also None for models that are not agents and for questions without a folder.

    If a folder is missing or not allowed (`..`, an absolute path, a link out of the root), the answer's items end with
    an error before any model is called.
    """

    name = "PrepareWorkspace"
    scope = "answer"
    produces = frozenset({Keys.WORKSPACE_PATH})
    after = frozenset({Slot.VALIDATE_TEMPLATE})
    before = frozenset({Slot.GENERATE_ANSWER})
    settings = AgenticSettings
    reads: ClassVar[Mapping[str, object]] = {"sandbox": None}

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Return True if an agent judges, or if one answers a question that has a folder, otherwise a `Skip` with the
        reason.
        """
        if _judges_need_workspace(config, question):
            return True
        if question.workspace_path is None:
            return Skip("agentic_parsing is off, and the question has neither agentic traits nor a workspace")
        if any(works_in_folder(config, model) for model in config.core.answering_models):
            return True
        return Skip("agentic_parsing is off, the question has no agentic traits, and no answering model is an agent")

    def source_folders(self, config: VerificationConfig, question: Question) -> Sequence[SourceFolder]:
        """Return the question's folder if answers get copies of it. If the folder is not available, the result is
        empty, and nothing is raised.
        """
        settings = config.section(AgenticSettings)
        if question.workspace_path is None or not settings.workspace_copy:
            return ()
        try:
            root = resolve_root(settings.workspace_root)
            return (source_folder(resolve_source(root, question.workspace_path), root),)
        except WorkspaceError:
            return ()

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ModelNeed]:
        """Delete the workspaces that killed runs left in the workspace root, and return no needs."""
        with suppress(WorkspaceError):  # each item reports the problem with the root
            remove_orphans(resolve_root(config.section(AgenticSettings).workspace_root))
        return ()

    async def execute(self, context: VerificationContext) -> None:
        """Create the workspace if one is needed, schedule its removal, and set `WORKSPACE_PATH` (None if none is
        needed). A failure ends the item with an error.
        """
        settings = cast("AgenticSettings", context.settings)
        question = context.question
        unasked = question.workspace_path is None and not needs_workspace(context.config, question)
        if (settings.workspace_root is None and unasked) or not self._is_needed(context):
            context.set_artifact(Keys.WORKSPACE_PATH, None)
            return
        try:
            workspace = await self._make_workspace(context, settings)
        except WorkspaceError as error:
            context.mark_error(str(error))
            return
        context.set_artifact(Keys.WORKSPACE_PATH, workspace)

    @staticmethod
    def _is_needed(context: VerificationContext) -> bool:
        config = context.config
        return _judges_need_workspace(config, context.question) or works_in_folder(config, context.answering_model)

    async def _make_workspace(self, context: VerificationContext, settings: AgenticSettings) -> Path:
        """Create and return the workspace of an answer: a new folder or a copy of the question's folder or archive or,
        without `workspace_copy`, the question's own folder, which agents then change. Raises `WorkspaceError` if the
        root or the folder is missing or not allowed, or if it cannot be copied.
        """
        from karenina_toolkit.files.workspace_archives import hold

        root = resolve_root(settings.workspace_root)
        replicate = context.replicate if context.config.core.replicate_count > 1 else None
        path = context.question.workspace_path
        if path is None:
            return self._create(context, settings, root / unique_name(make_slug(context.question.id), "run", replicate))
        place = resolve_source(root, path)
        if not settings.workspace_copy:
            if place.is_file():
                raise WorkspaceError(
                    f"workspace_path {path!r} is an archive, which agents cannot change; set workspace_copy = true"
                )
            await context.in_thread(check_links, place, root)
            return place
        source = await hold(context, place, root, settings.workspace_max_bytes)
        workspace = self._create(context, settings, source.parent / unique_name(source.name, "run", replicate))
        await run_to_completion(
            context, lambda: copy_folder(source, workspace, root, most_bytes=settings.workspace_max_bytes)
        )
        return workspace

    @staticmethod
    def _create(context: VerificationContext, settings: AgenticSettings, path: Path) -> Path:
        """Create the folder at `path`, and return its path. If `workspace_cleanup` is enabled, it is removed after the
        last judge. Raises `WorkspaceError` if it cannot be created.

        Call this before copying any files, so that an interrupted copy is removed too.
        """
        folder = create_folder(path, noted=settings.workspace_cleanup)
        if settings.workspace_cleanup:
            context.at_end(make_cleanup(context, folder))
        else:
            context.log.info("the workspace %s will be kept", path)
        return path


def _judges_need_workspace(config: VerificationConfig, question: Question) -> bool:
    """Return whether an agent parses templates or scores a trait of the question, whether or not it may see the
    workspace. See `needs_workspace`.
    """
    parsing = uses_agentic_parsing(config) or config.section(AgenticSettings).agentic_parsing
    return parsing or any(agentic_traits(question))


async def run_to_completion(context: VerificationContext, work: Callable[[*Ts], None], *arguments: *Ts) -> None:
    """Run `work` with `arguments` in a thread of `context`, and wait for it even if cancelled, so that the files it
    creates can be removed.
    """
    import asyncio  # most commands load the stages without running them

    thread = asyncio.ensure_future(context.in_thread(work, *arguments))
    try:
        await asyncio.shield(thread)
    except asyncio.CancelledError:
        await asyncio.wait([thread])
        raise


def make_cleanup(context: VerificationContext, folder: CreatedFolder) -> Callable[[], Awaitable[None]]:
    """Return a function that removes a folder and deletes it from the cleanup list. If the folder cannot be removed, it
    logs a warning, and the folder stays on the list.
    """

    async def clean_up() -> None:
        """Remove the folder and its entry in the cleanup list. If this fails, log a warning and keep the entry."""
        try:
            await run_to_completion(context, folder.remove)
        except OSError as error:
            context.log.warning("the workspace %s could not be removed: %s", folder.path, error)
        else:
            CLEANUP_LIST.discard(folder)

    return clean_up
