"""Files that are attached: what they contain, and their contents when they are sent."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Final, NamedTuple

from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_toolkit.attachments.media_types import (
    HEAD,
    MAX_FILE,
    OVERLAP,
    SUFFIXES,
    TAIL,
    ends_in_zip,
    find_archive,
    find_media_type,
    is_markup,
)
from karenina_toolkit.files.bounded_files import FileError, format_size, open_file, open_only_below

_PIECE: Final = 1 << 20
_KINDS: Final = "a PNG, JPEG, GIF or WebP image, a PDF, or a WAV or MP3 recording"


class _Examined(NamedTuple):
    """A file's media type, digest and size, and the reason why the file cannot be sent, if there is one."""

    media_type: str
    sha256: str
    size: int
    problem: str | None = None


class AttachmentProblem(ValueError):
    """Raised if a file cannot be attached. The message names the file, the problem and the cure."""


class MissingAttachment(AttachmentProblem):
    """Raised if the file does not exist or cannot be read."""


def examine(attachment: Attachment, folder: Path | None = None) -> Attachment:
    """Read a file, and return its attachment with the media type, digest and size, and the absolute path. A relative
    path is relative to `folder` or the current folder. Files outside `folder` are read, too, but not one that is
    replaced by a link out of it during the check. Raises `AttachmentProblem` if the file cannot be attached, for
    example because it is missing, too large or of another type.
    """
    base = folder if folder is not None else Path()
    path = Path(os.path.abspath(base / attachment.source))  # noqa: PTH100 - `absolute` keeps `..`
    try:
        inside = folder if folder is not None and path.is_relative_to(os.path.abspath(folder)) else None  # noqa: PTH100
        with open_only_below(inside if _stays(path, inside) else None), open_file(path, any_size=True) as file:
            status = os.fstat(file.fileno())
            if status.st_size > MAX_FILE:
                what = f"the file size is {format_size(status.st_size)}, but the limit for attachments is"
                raise AttachmentProblem(f"{path}: {what} {format_size(MAX_FILE)}; make the file smaller")
            changed = status.st_mtime_ns
            found = _examine(file, (str(path), status.st_mtime_ns, status.st_size, status.st_ino))
    except FileError as error:
        raise MissingAttachment(str(error)) from None
    except (OSError, ValueError) as error:
        if isinstance(error, AttachmentProblem):
            raise
        raise MissingAttachment(f"{path}: the file cannot be read ({error}); check the path") from None
    problem = found.problem
    if problem is None and SUFFIXES.get(path.suffix.lower()) != found.media_type:
        suffixes = " or ".join(suffix for suffix, name in SUFFIXES.items() if name == found.media_type)
        problem = f"the file is {found.media_type}, but its name does not end in {suffixes}; rename or convert it"
    if problem is None and attachment.pages is not None and found.media_type != "application/pdf":
        problem = f"`pages` applies to PDFs, and the file is {found.media_type}; remove `pages`"
    elif problem is None and attachment.pages is not None:
        problem = _find_unsendable_page(path, attachment.pages, changed)
    if problem is not None:
        raise AttachmentProblem(f"{path}: {problem}")
    return replace(attachment, media_type=found.media_type, sha256=found.sha256, size=found.size, source=str(path))


def store_contents(name: str, data: bytes) -> Attachment:
    """Write contents that have no file, such as an image in a tool result, to a temporary folder, and return them as an
    attachment. Raises `AttachmentProblem` if they cannot be attached.

    The folder is removed when the process ends. The file's suffix depends on the type of the contents.
    """
    suffix = next((suffix for suffix, kind in SUFFIXES.items() if kind == find_media_type(data[:HEAD])), ".bin")
    path = Path(temporary_folder()) / f"{hashlib.sha256(data).hexdigest()[:16]}{suffix}"
    if not path.exists():
        path.write_bytes(data)
    return replace(examine(Attachment.of(path)), name=f"{name}{suffix}")


@cache
def temporary_folder() -> str:
    """Return the folder for attachments that exist only in memory. It is created on the first call, and removed when
    the process ends.

    Call this before forking processes that store contents: they then share the folder. Nothing would remove a folder
    that such a process has created.
    """
    folder = mkdtemp(prefix="karenina-attachments-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def read_attachment(attachment: Attachment) -> bytes:
    """Return the contents of an examined file, or of its chosen pages as a PDF. Raises `PortError` if the file is
    missing or has changed since it was examined, or if the pages cannot be cut.
    """
    data = _read_source(attachment)
    if attachment.pages is None:
        return data
    from karenina_toolkit.attachments.pdf_pages import cut_pages

    return cut_pages(attachment, data)


def _read_source(attachment: Attachment) -> bytes:
    """Return the contents of an examined file. Raises `PortError` if it is missing or has changed."""
    cure = "restore the file, or run again with the new one"
    if not attachment.source:
        what = f"the file of the attachment {attachment.name!r} is not available; {cure}"
        raise PortError(what, category=ErrorCategory.PERMANENT)
    try:
        with open_file(Path(attachment.source), any_size=True) as file:
            data = file.read(attachment.size + 1)
    except (FileError, OSError) as error:
        what = f"the attachment {attachment.name!r} cannot be read ({error}); {cure}"
        raise PortError(what, category=ErrorCategory.PERMANENT) from None
    if len(data) != attachment.size or hashlib.sha256(data).hexdigest() != attachment.sha256:
        what = f"the attachment {attachment.source} has changed since the run began; {cure}"
        raise PortError(what, category=ErrorCategory.PERMANENT)
    return data


def _find_unsendable_page(path: Path, pages: str, changed: int) -> str | None:
    """Return the reason why these pages of a PDF cannot be sent, or None. The result is cached for the
    file's modification time, `changed`. Without pypdfium2, only the ranges are checked, and the PDF is not opened.
    """
    from karenina_toolkit.attachments.pdf_pages import find_problem, numbers_of

    if any(not numbers_of(part) for part in pages.split(",")):
        return f"the pages {pages} contain a range that ends before it begins; write the smaller number first"
    return find_problem(str(path), changed, pages)


def _stays(path: Path, folder: Path | None) -> bool:
    """Return whether `path` is in `folder` when links are resolved."""
    return folder is not None and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


_Key = tuple[str, int, int, int]
"""A file's path, time of change, size and inode number, by which it is recognized."""
_examined: dict[_Key, _Examined] = {}


def _examine(file: IO[bytes], key: _Key) -> _Examined:
    """Return what a file contains. A file that has not changed is read once."""
    if key not in _examined:
        _examined[key] = _read_through(file)
    return _examined[key]


def _read_through(file: IO[bytes]) -> _Examined:
    """Read a file in pieces, and return its media type, digest and size, with a problem if it is empty, an archive or
    of an unsupported type.
    """
    digest, size, head, tail, archive = hashlib.sha256(), 0, b"", b"", False
    while piece := file.read(_PIECE):
        head = head or piece[:HEAD]
        archive = archive or find_archive(tail[-OVERLAP:] + piece)
        digest.update(piece)
        size += len(piece)
        tail = (tail + piece)[-TAIL:]
    problem, media_type = None, ""
    try:
        media_type = find_media_type(head) or ""
    except ValueError as error:
        problem = f"{error}; convert it to one of them"
    if not size:
        problem = "the file is empty"
    elif is_markup(head) and b"<html" in head.lower():
        problem = "the file is a web page, perhaps an error page with the name of the file; download it again"
    elif is_markup(head):
        problem = "SVG and other markup cannot be sent; convert the picture to PNG"
    elif problem is None and not media_type:
        problem = f"the file is not {_KINDS}; convert it"
    elif archive or ends_in_zip(tail, size):
        problem = "the file is also an archive; convert it to a file with nothing behind its contents"
    return _Examined(media_type, digest.hexdigest(), size, problem)
