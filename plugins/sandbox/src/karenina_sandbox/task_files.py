"""The files of a question with a workspace: its source, what a check adds, and folders made from them."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyio import to_thread

from karenina_core.text import did_you_mean
from karenina_sandbox.capture.folders import apply_patch, compare_folders
from karenina_sandbox.capture.trees import TreeWriter
from karenina_sandbox.diffs.applying import apply_diff
from karenina_sandbox.diffs.reading import MOST_READ
from karenina_sandbox.fields import is_diff
from karenina_sandbox.patch import Patch
from karenina_sandbox.steering import (
    NewModule,
    initializes,
    is_below,
    may_steer,
    new_modules,
    shadowing,
    steers,
    test_folders,
)
from karenina_toolkit.files.safe_paths import open_file, resolve_links
from karenina_toolkit.files.source_digest import digest_folder
from karenina_toolkit.files.workspace_archives import hold, opened_source
from karenina_toolkit.files.workspace_copy import (
    CLEANUP_LIST,
    MOST_BYTES,
    WorkspaceError,
    copy_folder,
    create_folder,
    resolve_root,
    resolve_source,
    source_folder,
    unique_name,
)

if TYPE_CHECKING:
    from karenina_core import Question, VerificationConfig, VerificationContext
    from karenina_core.models.ports import SourceFolder
    from karenina_sandbox.fields import Check


def find_root(config: VerificationConfig) -> Path:
    """Return the workspace root. Raises `WorkspaceError` if there is none that can be used."""
    return resolve_root(config.setting("workspace_root") if config.has("workspace_root") else None)


class UsedChanges(NamedTuple):
    """The part of an agent's changes that a check uses, and the paths of those that it does not.

    `restored` are paths of the source that come back in folders that the agent deleted or replaced. `may_steer` are
    those of used files that Python runs when it imports tests below.
    """

    patch: Patch
    restored: tuple[str, ...] = ()
    not_used: tuple[str, ...] = ()
    may_steer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The folder of a question in the workspace root. Nothing in it is ever changed.

    If the question names an archive, `source` is the archive, or the folder into which it was unpacked. In the latter
    case, `archive` is the archive.
    """

    root: Path
    source: Path
    most_bytes: int = MOST_BYTES
    archive: Path | None = None

    @classmethod
    def find(cls, config: VerificationConfig, question: Question) -> TaskFiles:
        """Return the files of a question, as its `workspace_path` below the workspace root. Archives are not unpacked.
        Raises `WorkspaceError` if the question has no such path, or it is missing or not allowed.
        """
        root = find_root(config)
        if question.workspace_path is None:
            raise WorkspaceError(
                f"the question {question.id!r} has no workspace_path; set it to the question's folder in the workspace "
                "root"
            )
        most = config.setting("workspace_max_bytes") if config.has("workspace_max_bytes") else MOST_BYTES
        return cls(root, resolve_source(root, question.workspace_path), most)

    async def held(self, context: VerificationContext) -> TaskFiles:
        """Return the files, with an archive unpacked into a folder that exists until the answer's last item has ended.
        Raises `WorkspaceError` if it cannot be unpacked.
        """
        return self._at(await hold(context, self.source, self.root, self.most_bytes))

    @contextmanager
    def opened(self) -> Iterator[TaskFiles]:
        """Yield the files with an archive unpacked. Raises `WorkspaceError` if it cannot be unpacked."""
        with opened_source(self.source, self.root, most_bytes=self.most_bytes) as folder:
            yield self._at(folder)

    def _at(self, folder: Path) -> TaskFiles:
        return self if folder == self.source else replace(self, source=folder, archive=self.source)

    def beside(self, path: str) -> Path:
        """Return the path of a file or folder below the workspace root. Raises `WorkspaceError` if there is none, or if
        it is inside the question's own folder, where agents would see it.
        """
        try:
            found = resolve_links(self.root / path)
        except OSError as error:
            raise WorkspaceError(f"{path!r} cannot be used: {error}") from None
        if not found.is_relative_to(self.root) or found == self.root or not (found.is_dir() or found.is_file()):
            raise WorkspaceError(f"there is no file or folder {path!r} in the workspace root {self.root}")
        if found.is_relative_to(self.source):
            raise WorkspaceError(
                f"{path!r} is inside the question's folder {self.source}, where the agent can see it; move it next to "
                "that folder"
            )
        return found

    def folder(self, path: str | None = None) -> SourceFolder:
        """Return the source, or what is at `path` below the root, as a folder whose content can be compared."""
        return source_folder((self.archive or self.source) if path is None else self.beside(path), self.root)

    def digest(self, path: str | None = None) -> str:
        """Return a digest of the source, or of what is at `path` below the root."""
        if path is not None and (is_diff(path) or self.beside(path).is_file()):
            return hashlib.sha256(self.diff(path)).hexdigest()
        return digest_folder(self.folder(path))

    def diff(self, path: str) -> bytes:
        """Return a diff as bytes: `path` itself if it is the text of one, otherwise the file below the workspace root.
        Raises `WorkspaceError` if it cannot be read.
        """
        if is_diff(path):
            return path.encode("utf-8", "surrogateescape")
        file = self.beside(path)
        if not file.is_file():
            raise WorkspaceError(f"{path!r} is a folder, not a patch file")
        return self._read(file)

    def _read(self, file: Path) -> bytes:
        """Return the content of a file. Raises `WorkspaceError` if it is larger than `MOST_READ`."""
        with open_file(self.root, file) as opened:
            content = opened.read(MOST_READ + 1)
        if len(content) > MOST_READ:
            raise WorkspaceError(f"{file} is larger than {MOST_READ:,} bytes")
        return content

    @asynccontextmanager
    async def copy(self) -> AsyncIterator[Path]:
        """Yield a copy of the question's folder, which is made next to it and removed at the end. Raises
        `WorkspaceError` if it cannot be copied.

        If this process is killed, a later run removes it.
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

    async def with_file(self, path: str, content: bytes) -> Patch:
        """Return the change that writes a file into the source."""
        async with self.copy() as folder, self.copy() as unchanged:
            with TreeWriter(folder) as writer:
                writer.file(path, content, 0o644)
            return await to_thread.run_sync(compare_folders, unchanged, folder)

    async def additions(self, path: str) -> Patch:
        """Return the changes that a check makes by adding the folder or patch at `path`. Raises `WorkspaceError` if
        there is none, and `DiffError` if the patch does not fit the source.
        """
        if is_diff(path) or (found := self.beside(path)).is_file():
            return await self.read_diff(self.diff(path))
        return await to_thread.run_sync(self._contents, found)

    def _contents(self, added: Path) -> Patch:
        """Return a patch that creates all that is in the folder `added`, whose links are followed."""
        folder = create_folder(self.source.parent / unique_name(self.source.name, "run", None))
        try:
            (folder.path / "before").mkdir()
            copy_folder(added, folder.path / "after", self.root, most_bytes=self.most_bytes)
            return compare_folders(folder.path / "before", folder.path / "after", most_kept=self.most_bytes)
        finally:
            folder.remove()
            CLEANUP_LIST.discard(folder)

    def is_restored(self, path: str, restore: Sequence[str] = ()) -> bool:
        """Return whether a check replaces what the agent left at `path` with what the source has there, if anything: if
        the file steers tests, or if a name or pattern in `restore` covers it.
        """
        return steers(path) or any(
            path == name or path.startswith(f"{name}/") or fnmatch.fnmatchcase(path, name) for name in _names(restore)
        )

    def missing_restored(self, restore: Sequence[str], added: Collection[str]) -> str | None:
        """Return a message about the first name in `restore` that matches no file of the source or in `added`, or None.
        Names of files that steer the build or tests need not exist: restoring them keeps agents from adding any.
        """
        for given, name in zip(restore, _names(restore), strict=True):
            if may_steer(name) or steers(name) or os.path.lexists(self.source / name) or name == ".":
                continue
            paths = [*added, *self._paths()]
            if not any(self.is_restored(path, [name]) and not steers(path) for path in paths):
                near = did_you_mean(name, paths, "")
                return f"`restore` names {given!r}, which is neither in the folder {self.source} nor in `add`{near}"
        return None

    def _paths(self) -> Iterator[str]:
        """Yield what is in the source."""
        yield from self._restored_below(".", lambda _: True)

    def new_modules(self, patch: Patch) -> list[NewModule]:
        """Return the modules that a patch adds."""
        return list(new_modules(patch, self.source))

    def used_changes(self, patch: Patch, check: Check, added: Patch, installed: Collection[str]) -> UsedChanges:
        """Return which of an agent's changes a check uses and which not, which paths it takes from the source instead,
        and which used changes may steer tests. Raises `WorkspaceError` if a file of the source cannot be read.

        It takes from the source what steers tests and what `restore` names, and leaves out new files in folders of
        tests that the check adds, and new modules that Python would import in place of `installed` ones, of those that
        the check adds, and of those that it restores.
        """
        covered = {one.path for one in added.entries}
        parents = {str(parent) for path in covered for parent in Path(path).parents}
        tests = test_folders(added, _names(check.restore))

        def is_restored(path: str) -> bool:
            return self.is_restored(path, check.restore) or (initializes(path) and is_below(path, tests))

        modules = self.new_modules(patch)
        dropped = shadowing(modules, installed, source=self.source, patch=patch, added=added, run=check.run)
        dropped |= {
            one.path
            for one in modules
            if one.path not in covered
            and any(place in covered or self.is_restored(place, check.restore) for place in one.places())
        }
        dropped |= {
            one.path
            for one in patch.entries
            if is_restored(one.path)
            or (
                one.kind in ("file", "link")
                and one.path not in covered
                and is_below(one.path, tests)
                and not os.path.lexists(self.source / one.path)
            )
        }
        dropped |= {
            one.path
            for one in patch.entries
            if one.kind in ("file", "link")
            and not (self.source / one.path).is_dir()
            and any(name.startswith(f"{one.path}/") for name in _names(check.restore))
        }
        above_tests = {"" if parent == "." else parent for parent in parents}
        covered |= parents
        used = tuple(
            one
            for one in patch.entries
            if one.path not in dropped and (one.kind == "directory" or one.path not in covered)
        )
        restored = tuple(
            path
            for one in used
            if one.kind != "directory" and (self.source / one.path).is_dir()
            for path in self._restored_below(one.path, is_restored)
        )
        reported = (
            one.path
            for one in used
            if one.kind != "deleted" and initializes(one.path) and one.path.rpartition("/")[0] in above_tests
        )
        return UsedChanges(Patch(used), restored, tuple(sorted(dropped.union(restored))), tuple(reported))

    def _restored_below(self, folder: str, is_restored: Callable[[str], bool]) -> Iterator[str]:
        """Yield the paths below a folder of the source that a check restores, each folder before what it contains."""
        for above, folders, names in os.walk(self.source / folder, followlinks=True):
            inside = Path(above).relative_to(self.source)
            for name in sorted((*folders, *names)):
                path = (inside / name).as_posix()
                if is_restored(path):
                    yield path

    @asynccontextmanager
    async def check_folder(self, changes: UsedChanges, added: Patch) -> AsyncIterator[Path]:
        """Yield a temporary folder for a check: a copy of the source with an agent's changes and what the check adds.
        Raises `WorkspaceError` if the folder cannot be made.
        """
        async with self.copy() as folder:
            try:
                await to_thread.run_sync(apply_patch, changes.patch, folder)
                await to_thread.run_sync(self._restore, changes.restored, folder)
                await to_thread.run_sync(apply_patch, added, folder)
            except (ValueError, OSError) as error:
                raise WorkspaceError(f"the workspace for a check cannot be created: {error}") from None
            yield folder

    def _restore(self, paths: Sequence[str], folder: Path) -> None:
        """Copy the files at `paths` from the source to `folder`, and create the folders at `paths` without their
        contents, replacing whatever is there. Raises `OSError` if a file cannot be read or written.

        Parents that are not folders are replaced, too.
        """
        with TreeWriter(folder) as writer:
            for path in paths:
                place = resolve_links(self.source / path)
                mode = stat.S_IMODE(place.stat().st_mode)
                if place.is_dir():
                    writer.directory(path, mode)
                else:
                    with open_file(self.root, place) as opened:
                        writer.file(path, opened.fileno(), mode)


def _names(restore: Sequence[str]) -> list[str]:
    """Return the names of `restore`, as paths of patches are written."""
    return [name.removeprefix("./").strip("/") for name in restore]
