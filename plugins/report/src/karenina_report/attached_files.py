"""Attached files on pages: results state their names and digests, and a folder has their contents."""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from karenina_core.errors import ConfigError
from karenina_toolkit.files.bounded_files import FileError, format_size, read_bytes
from karenina_toolkit.kept_files import picture_type

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

MOST_OF_FILE: Final = 2_000_000
"""The maximum size of a picture in a page, in bytes."""
MOST_OF_PAGE: Final = 20_000_000
"""The maximum total size of the pictures in a page, in bytes."""

AttachmentsFolder = Annotated[
    Path | None,
    typer.Option(
        "--attachments",
        metavar="FOLDER",
        help="The folder with the attached files, usually that of the benchmark. The page then shows the pictures; "
        "otherwise, only their names and digests.",
    ),
]


def attachments_of(result: VerificationResult) -> list[dict[str, Any]]:
    """Return the records of attached files in a result's extensions and trace messages, except those without a name."""
    trace = result.template.trace_messages or ()
    holders: list[Mapping[str, Any]] = [*result.extensions.values(), *trace]
    lists = [holder.get("attachments") for holder in holders]
    return [
        file
        for files in lists
        if isinstance(files, list)
        for file in files
        if isinstance(file, dict) and isinstance(file.get("name"), str)
    ]


class AttachedFiles:
    """The folder with attached files, and the pictures taken from it for one page.

    Without a folder, no contents are known. A file is recognized by its name and digest, so that a file that has
    changed since the run is never shown.
    """

    def __init__(self, folder: Path | None) -> None:
        """Raise `ConfigError` if `folder` is not a folder."""
        if folder is not None and not folder.is_dir():
            raise ConfigError([f"--attachments {folder}: there is no such folder; name that of the benchmark"])
        self._by_name: dict[str, list[Path]] | None = None
        self._folder = folder
        self._used = 0

    def describe(self, file: Mapping[str, Any]) -> dict[str, Any]:
        """Return an attachment's name, type, size and a note. If the folder has it and it is a small enough picture,
        `data` is the picture in base64 and `picture` its type; its size counts toward the limit of the page.
        """
        digest = str(file.get("sha256") or "")
        pages = f", pages {file['pages']}" if file.get("pages") else ""
        shown = {"name": file["name"], "type": file.get("media_type"), "size": file.get("size")}
        stated = f"attached{pages}, sha256 {digest[:12]}"
        if self._folder is None:
            return {**shown, "note": stated}
        data = self._find(str(file["name"]), digest)
        if data is None:
            return {**shown, "note": f"{stated}; {self._folder} does not contain it"}
        picture = picture_type(data)
        if picture is None:
            return {**shown, "note": stated}
        if len(data) > MOST_OF_FILE or self._used + len(data) > MOST_OF_PAGE:
            limit = f"{format_size(MOST_OF_FILE)} per file and {format_size(MOST_OF_PAGE)} in total"
            return {**shown, "note": f"{stated}; too large for the page ({limit})"}
        self._used += len(data)
        return {**shown, "note": stated, "data": base64.b64encode(data).decode("ascii"), "picture": picture}

    def _find(self, name: str, digest: str) -> bytes | None:
        """Return the contents of the file with this name and digest at any depth of the folder, or None. Files that
        cannot be read are skipped.
        """
        if self._by_name is None:
            self._by_name = defaultdict(list)
            for path in sorted(self._folder.rglob("*")) if self._folder is not None else ():
                self._by_name[path.name].append(path)
        for path in self._by_name.get(name, ()):
            try:
                data = read_bytes(path)
            except FileError:
                continue
            if hashlib.sha256(data).hexdigest() == digest:
                return data
        return None
