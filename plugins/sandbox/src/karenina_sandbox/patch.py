"""Patches: what changed in a workspace, file by file."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from karenina_core.artifacts.artifact import ArtifactKey

EntryKind = Literal["file", "link", "directory", "deleted"]


class PatchEntry(NamedTuple):
    """The new state of a path of the workspace.

    - `path`: relative, with `/`. Bytes that are not UTF-8 are written as surrogates (`os.fsdecode`).
    - `kind`: `deleted` also stands for everything below a deleted folder.
    - `mode`: the permissions of a file or folder.
    - `sha256`, `size`: of a file's content, or of a link's target.
    - `content`: the bytes of a file, or a link's target. None if the file is larger than the limit of the capture.
    - `diff`: the unified diff of a text file against its source, to be read by people. It may be cut.
    """

    path: str
    kind: EntryKind
    mode: int = 0
    sha256: str = ""
    size: int = 0
    content: bytes | None = None
    diff: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a JSON-compatible dict, with its content in base64."""
        content = None if self.content is None else b64encode(self.content).decode()
        return {
            "path": self.path,
            "kind": self.kind,
            "mode": self.mode,
            "sha256": self.sha256,
            "size": self.size,
            "content": content,
            "diff": self.diff,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PatchEntry:
        """Return the entry that `to_json` wrote."""
        content = value.get("content")
        return cls(**{**value, "content": None if content is None else b64decode(content)})


@dataclass(frozen=True, slots=True)
class Patch:
    """What changed in a workspace against its source, sorted by path. A parent comes before what it contains.

    `left_out` names changed paths that cannot be kept, such as devices and sockets, each with the reason.
    """

    entries: tuple[PatchEntry, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The SHA-256 of paths, kinds, modes and contents."""
        states = [[one.path, one.kind, one.mode, one.sha256, one.size] for one in self.entries]
        return hashlib.sha256(json.dumps(states).encode()).hexdigest()

    @property
    def is_complete(self) -> bool:
        """Whether the patch contains the bytes of every changed file."""
        return all(one.content is not None for one in self.entries if one.kind in ("file", "link"))

    def to_json(self) -> dict[str, Any]:
        """Return the patch as JSON."""
        return {"entries": [one.to_json() for one in self.entries], "left_out": list(self.left_out)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Patch:
        """Return the patch that `to_json` wrote. Raises `KeyError`, `TypeError` or `ValueError` for anything else."""
        return cls(tuple(PatchEntry.from_json(one) for one in value["entries"]), tuple(value["left_out"]))

    def text(self) -> str:
        """Return the patch as text for people: the diffs, and a line for any other change."""
        return "".join(one.diff if one.diff else f"{one.kind} {one.path!r}\n" for one in self.entries)

    def __bool__(self) -> bool:
        return bool(self.entries)


WORKSPACE_PATCH: Final[ArtifactKey[Patch | None]] = ArtifactKey("workspace_patch", Patch)
"""The changes that the model under test made in its workspace, or None if a recorded patch does not fit the folder."""


def printable_name(path: str) -> str:
    """Return a path for a result: escaped if it contains characters that cannot be printed."""
    return path if path.isprintable() else ascii(path)
