"""What `check` finds about the files that a question attaches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karenina_engine.check.attachments import QuestionFiles
from karenina_engine.journal.named_files import find_data
from karenina_toolkit.attachments.media_types import IMAGES, MAX_MESSAGE
from karenina_toolkit.attachments.pdf_pages import missing_package
from karenina_toolkit.attachments.photo_position import has_position
from karenina_toolkit.conversations import files_by_message, has_files
from karenina_toolkit.files.bounded_files import format_size

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.data.rubrics import Rubric
    from karenina_core.models.attachments import Attachment

_EXIF: Final = 1 << 18
"""The number of bytes at the start of an image in which a position is looked for."""
_NEAR_END: Final = 66_000
_ENDS: Final = {"image/png": b"IEND", "image/jpeg": b"\xff\xd9", "application/pdf": b"%%EOF"}
"""The bytes that occur near the end of every complete file, by media type."""


def find_problems(
    question: Question, folder: Path | None, *, outside: bool, journal: Path | None = None
) -> Iterator[tuple[bool, str, str]]:
    """Yield each problem of a question's files as a tuple: whether it is an error, what is wrong, and the cure. If any
    file is outside `folder` and `outside` is not set, no file is read and nothing is yielded. A missing file that was
    sent in the run with the `journal` is not an error.
    """
    if not has_files(question):
        return
    read = (
        folder is None
        or outside
        or all(_is_inside(folder, file) for files in files_by_message(question) for file in files)
    )
    if not read:  # the check of restricted values names them
        return
    found = QuestionFiles(folder, journal)
    for attachments in files_by_message(found.resolve(question)):
        for attachment in attachments:
            problem = found.problem_of(attachment)
            if problem is None and attachment.pages is not None:
                problem = missing_package()
            if problem is not None:
                missing = attachment.source in found.missing
                yield not missing, problem, "only items that have a result run without the file" if missing else ""
                continue
            flaw = _find_flaw(attachment.media_type, Path(attachment.source).read_bytes())
            if flaw is not None:
                yield False, f"the file {attachment.name!r} {flaw}", "save it again"
            if attachment.media_type in IMAGES and _names_its_place(attachment):
                what = f"the photo {attachment.name!r} states where it was taken, and the model gets this too"
                yield False, what, "remove the GPS position, for example with exiftool -gps:all= FILE"
        size = sum(attachment.size for attachment in attachments)
        if size > MAX_MESSAGE:
            what = f"the attachments of a message have {format_size(size)}, but the limit is {format_size(MAX_MESSAGE)}"
            yield True, what, "attach fewer or smaller files"


def _find_flaw(media_type: str, data: bytes) -> str | None:
    """Return what is probably wrong with a file ("is probably cut off", or "is encrypted" for a PDF), or None if
    neither is the case.
    """
    end = _ENDS.get(media_type)
    if end is not None and end not in data[-_NEAR_END:]:
        return "is probably cut off: its end is missing"
    if media_type == "application/pdf" and b"/Encrypt" in data:
        return "is encrypted, and services refuse encrypted PDFs"
    return None


def find_unsent(question: Question, *shared: Rubric | None) -> Iterator[tuple[str, str]]:
    """Yield what is wrong, and the cure, for each trait whose judge cannot get the files that the trait names. `shared`
    are the rubrics of the benchmark.
    """
    for rubric in (*shared, question.rubric, question.dynamic_rubric):
        for trait in rubric.traits if rubric is not None else ():
            named = trait.extra.get("attachments")
            if named is True and not has_files(question):
                what = f"the trait {trait.name!r} sends the question's attachments to the judge, but there are none"
                yield what, "attach a file, or give the trait only to questions with files"
            elif isinstance(named, Mapping) and question.workspace_path is None:
                what = f"the trait {trait.name!r} sends files of the workspace to the judge, but there is none"
                yield what, "add workspace_path, or give the trait only to questions that have one"


def _is_inside(folder: Path, attachment: Attachment) -> bool:
    """Return whether a file is in the folder when links are resolved."""
    return all(file.inside for file in find_data(folder, attachment.source))


def _names_its_place(attachment: Attachment) -> bool:
    """Return whether an image states its position."""
    with Path(attachment.source).open("rb") as file:
        return has_position(file.read(_EXIF))
