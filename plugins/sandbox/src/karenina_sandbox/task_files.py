"""The files of a question with a workspace: its source, what a check adds, and folders made from them."""

from __future__ import annotations

import fnmatch
import hashlib
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from karenina_core.models.ports import SourceFolder
from karenina_sandbox.capture.folders import apply_patch, compare_folders
from karenina_sandbox.fields import is_diff
from karenina_sandbox.patch import Patch
from karenina_sandbox.unified_diff import MOST_READ, apply_diff
from karenina_toolkit.files.safe_paths import open_file, resolve_links
from karenina_toolkit.files.source_digest import digest_folder
from karenina_toolkit.files.workspace_copy import (
    CLEANUP_LIST,
    MOST_BYTES,
    WorkspaceError,
    copy_folder,
    create_folder,
    is_created_name,
    resolve_folder,
    resolve_root,
    unique_name,
)

if TYPE_CHECKING:
    from karenina_core import Question, VerificationConfig

STEERING: Final = (
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
)
"""The names of files that steer how tests run. Checks always take them from the source."""
_IMPORTED: Final = sys.stdlib_module_names | {
    *("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli", "colorama"),
    *("coverage", "pytest_cov", "xdist", "execnet", "hypothesis", "numpy", "setuptools", "pkg_resources"),
}
"""The modules that a runner of tests imports."""


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The folder of a question in the workspace root. Nothing in it is ever changed."""

    root: Path
    source: Path
    most_bytes: int = MOST_BYTES

    @classmethod
    def find(cls, config: VerificationConfig, question: Question) -> TaskFiles:
        """Return the files of a question. Raises `WorkspaceError` if the folder is missing or not allowed."""
        root = resolve_root(config.setting("workspace_root") if config.has("workspace_root") else None)
        if question.workspace_path is None:
            raise WorkspaceError(f"the question {question.id!r} has no workspace_path, which names its folder")
        most = config.setting("workspace_max_bytes") if config.has("workspace_max_bytes") else MOST_BYTES
        return cls(root, resolve_folder(root, question.workspace_path), most)

    def beside(self, path: str) -> Path:
        """Return a file or folder below the workspace root. Raises `WorkspaceError` if there is none."""
        try:
            found = resolve_links(self.root / path)
        except OSError as error:
            raise WorkspaceError(f"{path!r} cannot be used: {error}") from None
        if not found.is_relative_to(self.root) or found == self.root or not (found.is_dir() or found.is_file()):
            raise WorkspaceError(f"there is no file or folder {path!r} in the workspace root {self.root}")
        if found.is_relative_to(self.source):
            raise WorkspaceError(
                f"{path!r} is inside the question's folder {self.source}, where the agent sees it; move it next to it"
            )
        return found

    def folder(self, path: str | None = None) -> SourceFolder:
        """Return the source, or what is at `path` below the root, as a folder whose content can be compared."""
        found = self.source if path is None else self.beside(path)
        if found.is_dir():
            return SourceFolder(found, within=self.root, ignores=is_created_name)
        return SourceFolder(found.parent, within=self.root, ignores=lambda name: name != found.name)

    def digest(self, path: str | None = None) -> str:
        """Return a digest of the source, or of what is at `path` below the root."""
        if path is not None and (is_diff(path) or self.beside(path).is_file()):
            return hashlib.sha256(self.diff(path)).hexdigest()
        return digest_folder(self.folder(path))

    def diff(self, path: str) -> bytes:
        """Return the content of a patch below the root, or of the text itself.

        Raises `WorkspaceError` if it cannot be read.
        """
        if is_diff(path):
            return path.encode("utf-8", "surrogateescape")
        file = self.beside(path)
        if not file.is_file():
            raise WorkspaceError(f"{path!r} is a folder, not a patch")
        return self._read(file)

    def _read(self, file: Path) -> bytes:
        with open_file(self.root, file) as opened:
            content = opened.read(MOST_READ + 1)
        if len(content) > MOST_READ:
            raise WorkspaceError(f"{file} is larger than {MOST_READ:,} bytes")
        return content

    @asynccontextmanager
    async def copy(self) -> AsyncIterator[Path]:
        """Copy the source next to it, and remove the copy at the end.

        If this process is killed, a later run removes it. Raises `WorkspaceError` if it cannot be copied.
        """
        folder = create_folder(self.source.parent / unique_name(self.source.name, "run", None))
        try:
            await to_thread.run_sync(
                lambda: copy_folder(self.source, folder.path, self.root, most_bytes=self.most_bytes)
            )
            yield folder.path
        finally:
            folder.remove()
            CLEANUP_LIST.discard(folder)

    async def read_diff(self, diff: bytes) -> Patch:
        """Return the changes that a diff makes to the source. Raises `DiffError` if it does not fit."""
        async with self.copy() as folder, self.copy() as unchanged:
            await to_thread.run_sync(apply_diff, diff, folder)
            return await to_thread.run_sync(compare_folders, unchanged, folder)

    async def additions(self, path: str) -> Patch:
        """Return the changes that a check makes by adding the folder or patch at `path`.

        Raises `WorkspaceError` if there is none, and `DiffError` if the patch does not fit the source.
        """
        if is_diff(path) or (found := self.beside(path)).is_file():
            return await self.read_diff(self.diff(path))
        return await to_thread.run_sync(self._contents, found)

    def _contents(self, added: Path) -> Patch:
        """Return a patch that creates what is in a folder."""
        folder = create_folder(self.source.parent / unique_name(self.source.name, "run", None))
        try:
            (folder.path / "before").mkdir()
            copy_folder(added, folder.path / "after", self.root, most_bytes=self.most_bytes)
            return compare_folders(folder.path / "before", folder.path / "after", most_kept=self.most_bytes)
        finally:
            folder.remove()
            CLEANUP_LIST.discard(folder)

    def is_restored(self, path: str, restore: Sequence[str] = ()) -> bool:
        """Return whether a check takes what is at `path` from the source, which may have nothing there.

        It does if the file steers tests, if `restore` names it, or if it is a new module with the name of one that
        Python or pytest imports: Python would import it instead.
        """
        parts = path.split("/")
        if any(fnmatch.fnmatchcase(parts[-1], name) for name in STEERING):
            return True
        if parts[0].removesuffix(".py") in _IMPORTED and not (self.source / parts[0]).exists():
            return True
        names = [name.strip("/").removeprefix("./") for name in restore]
        return any(path == name or path.startswith(f"{name}/") or fnmatch.fnmatchcase(path, name) for name in names)

    @asynccontextmanager
    async def check_folder(self, patch: Patch, restore: Sequence[str], added: Patch) -> AsyncIterator[Path]:
        """Yield a folder in which a check runs: the source with a patch, and then with what the check adds.

        Changes of what the check restores or adds are left out of the patch. Raises `WorkspaceError` if the folder
        cannot be made.
        """
        covered = {one.path for one in added.entries}
        covered |= {str(parent) for path in covered for parent in Path(path).parents}
        entries = (
            one
            for one in patch.entries
            if not self.is_restored(one.path, restore) and (one.kind == "directory" or one.path not in covered)
        )
        async with self.copy() as folder:
            try:
                await to_thread.run_sync(apply_patch, Patch(tuple(entries)), folder)
                await to_thread.run_sync(apply_patch, added, folder)
            except (ValueError, OSError) as error:
                raise WorkspaceError(f"the workspace of a check cannot be made: {error}") from None
            yield folder
