"""Files that belong to an item, such as pictures, logs and patches.

Stages and adapters store them with `keep_file`. The run stores them next to its journal, lists them in the result, and
shows them in the report. Models never see them.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Protocol, TypeVar

from karenina_core.data.sections import KeptFile
from karenina_core.text import compose, replace_surrogates
from karenina_toolkit.printable import in_one_line

K = TypeVar("K", bound="FileKeeper")

_LONGEST_NAME: Final = 100
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}/[a-z0-9][a-z0-9.+-]{0,60}")
_UNKNOWN: Final = "application/octet-stream"
_PICTURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class FileKeeper(Protocol):
    """A store for an item's files. A run provides one."""

    def keep(self, name: str, data: bytes | Path, media_type: str, below: Path | None) -> KeptFile:
        """Store a file, and return its entry in the result. If the file was not stored, the entry contains the reason.

        The parameters are the same as in `keep_file`, but `name` is already a plain file name.
        """


_keeper: ContextVar[FileKeeper | None] = ContextVar("karenina_file_keeper", default=None)


def keep_file(name: str, data: bytes | Path, *, media_type: str | None = None, below: Path | None = None) -> KeptFile:
    """Store a file with the current item, and return its entry in the result. `data` is the contents or the path of a
    file to copy; for a path in a workspace, pass the workspace as `below`, so that no link can lead out of it. If the
    file is too large or cannot be stored, nothing is raised: a warning is logged, and the entry contains the reason
    (`left_out`).

    `name` is reduced to a plain file name (see `file_name`). A path must not be a link. If `media_type` is missing or
    invalid, it is determined from the contents or the name.

    The file is on disk when this returns. Outside a run, files are not stored, and there is no warning.

    This call blocks. In a stage, use `await context.in_thread(keep_file, name, data)` for files of more than a few
    megabytes.
    """
    import mimetypes  # its tables are large, and only runs keep files

    content = b"" if isinstance(data, Path) else bytes(data)
    stated = media_type.strip().lower() if media_type is not None else ""
    guessed = picture_type(content) or mimetypes.guess_type(name)[0] or _UNKNOWN
    kind = stated if _MEDIA_TYPE.fullmatch(stated) else guessed
    keeper = _keeper.get()
    if keeper is None:
        why = "the file was provided outside of a run"
        return KeptFile(name=file_name(name), media_type=kind, left_out=why)
    return keeper.keep(file_name(name), data if isinstance(data, Path) else content, kind, below)


class keeping_files(AbstractContextManager[K]):  # noqa: N801 - used like a function
    """A context manager that uses `keeper` to store the files kept inside the `with` block and in tasks started there.

    A generator would be several times slower.
    """

    __slots__ = ("_keeper", "_token")

    def __init__(self, keeper: K) -> None:
        self._keeper = keeper

    def __enter__(self) -> K:
        self._token = _keeper.set(self._keeper)
        return self._keeper

    def __exit__(self, *_error: object) -> None:
        _keeper.reset(self._token)


def current_keeper() -> FileKeeper | None:
    """Return the keeper currently in use, or None outside a run."""
    return _keeper.get()


def file_name(name: str) -> str:
    """Return a safe file name: the last part of `name`, without control characters, and without dots and spaces at its
    ends, with `_` for characters that Windows forbids, shortened to 100 characters, but with its extension. If nothing
    remains, it is `file`.
    """
    last = re.split(r"[/\\]", in_one_line(compose(replace_surrogates(name))))[-1]
    plain = re.sub(r'[<>:"|?*]', "_", last).strip(". ")
    if len(plain) <= _LONGEST_NAME:
        return plain or "file"
    stem, dot, suffix = plain.rpartition(".")
    ending = f"{dot}{suffix}" if 0 < len(suffix) <= 10 and stem else ""
    return plain[: _LONGEST_NAME - len(ending)].rstrip(". ") + ending


def picture_type(content: bytes) -> str | None:
    """Return the media type of a picture that browsers can show safely, or None for any other contents. The types are
    PNG, JPEG, GIF and WebP. Only the first bytes are examined.
    """
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begins, kind in _PICTURES.items() if content.startswith(begins)), None)
