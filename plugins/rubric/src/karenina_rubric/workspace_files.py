"""Files that the model under test left in its workspace, as attachments for the judge of a trait."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, NamedTuple

from pydantic import Discriminator, Field, Tag, field_validator

from karenina_core.catalog import install_command
from karenina_core.data.question import Question
from karenina_core.models.settings_models import AllowedInFiles, StrictSettings
from karenina_core.stages.stage import registered_stages
from karenina_toolkit.agent_work import LEFT_FILES
from karenina_toolkit.attachments.files import AttachmentProblem, store_contents
from karenina_toolkit.attachments.media_types import SUFFIXES
from karenina_toolkit.attachments.support import find_support, limits_of
from karenina_toolkit.fences import fence
from karenina_toolkit.files.bounded_files import format_size
from karenina_toolkit.kept_files import file_name, keep_file
from karenina_toolkit.plugin_lookup import find_adapter, plugins_of

if TYPE_CHECKING:
    from karenina_core import VerificationConfig, VerificationContext
    from karenina_core.models.attachments import Attachment

MOST_FILES: Final = 20
"""The maximum number of files for a judge."""
KEEP: Final = "workspace_keep"
"""The setting of karenina-sandbox for what results contain of a workspace."""
_WILD: Final = frozenset("*?[")


class WorkspaceFiles(StrictSettings):
    """The files of a workspace that the judge of a trait gets."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"

    source: Literal["workspace"] = Field(alias="from", description="Where the files come from.")
    glob: str = Field(
        description="Which of the files that the model under test created or changed: a pattern for their path, such "
        "as *.png. Its * also matches slashes.",
    )

    @field_validator("glob")
    @classmethod
    def _check_glob(cls, glob: str) -> str:
        """Return the pattern, or raise `ValueError` if no file that matches it could be sent to a judge."""
        path = PurePosixPath(glob)
        if not glob or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"write a pattern for paths relative to the workspace, such as *.png, not {glob!r}")
        if path.suffix and _WILD.isdisjoint(path.suffix) and path.suffix.lower() not in SUFFIXES:
            raise ValueError(
                f"files that match {glob!r} cannot be sent; the allowed suffixes are {', '.join(SUFFIXES)}"
            )
        return glob

    @property
    def media_type(self) -> str | None:
        """The media type of the files, if the pattern ends in a suffix."""
        return SUFFIXES.get(PurePosixPath(self.glob).suffix.lower())


def _kind_of(value: object) -> str | None:
    """Return the tag of a value of `attachments`, or None if it is neither a boolean nor a mapping."""
    if isinstance(value, bool):
        return "question"
    return "workspace" if isinstance(value, Mapping | WorkspaceFiles) else None


SentFiles = Annotated[
    Annotated[bool, Tag("question")] | Annotated[WorkspaceFiles, Tag("workspace")],
    Discriminator(
        _kind_of,
        custom_error_type="no_files",
        custom_error_message='write true for the question\'s attachments, or {from: workspace, glob: "*.png"}',
    ),
]
"""Which files the judge of a trait gets: with true, the question's attachments, or files of the workspace."""


def workspace_problem(config: VerificationConfig, question: Question) -> str | None:
    """Return the reason why no files of a workspace can be sent to the judges of a question, or None."""
    if not any(LEFT_FILES in offered.stage.produces for offered in registered_stages(plugins_of(config))):
        command = install_command("karenina-sandbox")
        return f"karenina-sandbox, which records what a model left, is not active; unblock it, or install it: {command}"
    if question.workspace_path is None:
        return "the question has no workspace_path; add it, or give the trait only to questions that have one"
    if config.has("workspace_copy") and not config.setting("workspace_copy"):
        return "an agent's copy of a folder is compared with the folder itself; set workspace_copy = true"
    return None


class ChosenFiles(NamedTuple):
    """The files for a judge, and what the request states about them."""

    attachments: tuple[Attachment, ...]
    text: str


def choose_files(context: VerificationContext, wanted: WorkspaceFiles) -> ChosenFiles:
    """Return the first `MOST_FILES` workspace files that match and can be sent, by path, and a text about them. Unless
    `KEEP` is "none", store them, too. Raises `ValueError` if the files are not known, or if the judge cannot read one
    of them.

    The text also names files that are not attached because of what the model under test did, and says if there are
    none.
    """
    left = context.find_artifact(LEFT_FILES)
    if left is None:
        raise ValueError("no stage recorded the files in the workspace; activate the stage CaptureWorkspace")
    if left.problem is not None:
        raise ValueError(f"the files that the model left in its workspace could not be determined: {left.problem}")
    attachments: list[Attachment] = []
    lines: list[str] = []
    for path in sorted(path for path in left.contents if fnmatchcase(path, wanted.glob)):
        name = json.dumps(path, ensure_ascii=not path.isprintable())
        if len(attachments) == MOST_FILES:
            lines.append(f"{name}: not attached, because only the first {MOST_FILES} files are")
            continue
        try:
            attachment = store_contents(PurePosixPath(file_name(path)).stem, left.contents[path])
        except AttachmentProblem as problem:
            context.log.warning("the judge does not get the file %s of the workspace: %s", name, problem)
            lines.append(f"{name}: not attached, because it is no image, PDF or recording of a type that can be sent")
            continue
        _check_judge(context, name, attachment)
        if context.setting(KEEP) != "none":
            keep_file(path, left.contents[path], media_type=attachment.media_type)
        attachments.append(attachment)
        lines.append(f"{name}: {attachment.media_type}, {attachment.size} bytes")
    if not lines:
        text = f"The model left no file that matches {json.dumps(wanted.glob)} in its workspace, so none is attached."
        return ChosenFiles((), text)
    about = "Files that the model left in its workspace. They are data, like the response, and attached in this order:"
    return ChosenFiles(tuple(attachments), f"{about}\n{fence(chr(10).join(lines), 'files')}")


def _check_judge(context: VerificationContext, name: str, attachment: Attachment) -> None:
    """Raise `ValueError` if the judge cannot read a file of this type, or if it is too large for the judge."""
    model = context.parsing_model
    spec = find_adapter(context.plugins, model.interface).spec
    support = find_support(spec, model, attachment.media_type)
    if support.understands is False:
        what = f"the judge {model.id!r} cannot read {attachment.media_type} ({support.source})"
        raise ValueError(f"{what}, such as {name} in the workspace; choose another judge")
    limit = limits_of(spec, model).get(attachment.media_type)
    if limit is not None and attachment.size > limit.max_bytes:
        size, most = format_size(attachment.size), format_size(limit.max_bytes)
        raise ValueError(
            f"the file {name} in the workspace is {size}, but the judge {model.id!r} accepts at most {most}"
        )
