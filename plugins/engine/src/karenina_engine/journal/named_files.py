"""The files named in a benchmark, and their state when the user ran or trusted the benchmark.

Anyone who can write to the benchmark's folder can replace a file with a link or change a program without touching the
benchmark itself. Trust in a value and `karenina resume` therefore compare the files too.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from karenina_core.models.ports import SourceFolder
from karenina_toolkit.files.source_digest import digest_folder

_SCRIPTS: Final = (".py", ".pyz", ".zip", ".sh", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".jar", ".exe", ".bat")
"""File name extensions of programs that an interpreter runs."""


class NamedFile(NamedTuple):
    """A file or folder named by a benchmark, as it was when it was recorded.

    `name` is relative to `base` and refers to `resolved`. `linked` is True if it does so through links. `inside` is
    True if it is inside `folder`, the benchmark's folder. `program` is True if it may be executed rather than only
    read. `digest` is a digest of its contents, or None if the contents are irrelevant or unreadable.
    """

    name: str
    base: str
    folder: str
    program: bool
    resolved: str
    linked: bool
    inside: bool
    digest: str | None = None

    @classmethod
    def at(cls, name: str, base: str, folder: str, *, program: bool = False) -> NamedFile:
        """Return the file or folder that `name` currently refers to, relative to `base`, which need not exist. No
        digest of the contents is made. `folder` is the benchmark's folder. Raises `ValueError` if `name` cannot be a
        path.
        """
        resolved = os.path.realpath(Path(base, name))
        plain = os.path.normpath(Path(os.path.realpath(base), name))
        inside = _lies_in(resolved, os.path.realpath(folder))
        return cls(name, base, folder, program, resolved, resolved != plain, inside)

    def with_digest(self) -> NamedFile:
        """Return a copy with a digest of the contents. A folder that contains the benchmark's folder gets no digest."""
        kind, digest = _kind_of(self.resolved), None
        if kind == stat.S_IFREG:
            digest = _digest_file(self.resolved)
        elif kind == stat.S_IFDIR and not _lies_in(os.path.realpath(self.folder), self.resolved):
            digest = digest_folder(SourceFolder(Path(self.resolved)))
        return self._replace(digest=digest)

    def now(self) -> NamedFile:
        """Look up the same name again, and return the file in its current state. A program always gets a digest. Any
        other file only gets one if this object has one.
        """
        file = NamedFile.at(self.name, self.base, self.folder, program=self.program)
        return file if self.digest is None and not self.program else file.with_digest()

    def identity(self) -> list[tuple[str, str]]:
        """Return what the user trusts besides the name, in pairs for messages: a link's target and the digest of a
        program.
        """
        pairs = [(f"{self.name} leads to", self.resolved)] if self.linked else []
        return (
            [*pairs, (f"{self.name} has SHA-256", self.digest)] if self.program and self.digest is not None else pairs
        )

    def dangerous_change(self, now: NamedFile) -> str | None:
        """Describe a change after which a run would read or start something that the user has not seen. Returns None if
        there is no such change. Data inside the benchmark's folder may change, because it belongs to the author of the
        benchmark, like the questions.
        """
        if now.resolved != self.resolved and (self.program or not (self.inside and now.inside)):
            return f"{self.name} was {self.resolved} and now points to {now.resolved}"
        if self.program and self.digest is None and now.digest is not None:
            return f"{self.resolved}, which can be a program, did not exist before"
        if self.program and now.digest != self.digest:
            return f"the content of {self.resolved}, which can be a program, has changed"
        return None

    def is_file(self, command: Mapping[str, Any]) -> bool:
        """Return whether this is the benchmark file of `command`."""
        return str(Path(self.base, self.name)) == str(command["benchmark"])

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON-compatible data."""
        return self._asdict()


def find_changes(command: Mapping[str, Any], *, starts: bool = True, benchmark: bool = True) -> list[str]:
    """Return descriptions of the changes to files that make it unsafe to repeat a user's own command. Set `starts` to
    False to ignore programs, and `benchmark` to False to ignore the benchmark file.
    """
    then = [NamedFile(**file) for file in command["files"]]
    files = [file for file in then if (starts or not file.program) and (benchmark or not file.is_file(command))]
    return [text for file in files if (text := file.dangerous_change(file.now())) is not None]


def describe_changes(command: Mapping[str, Any]) -> list[str]:
    """Return descriptions of all changes, dangerous or not, to the benchmark and the files that a stored command names,
    since the command was stored. If a parent folder now points elsewhere, the folder is listed instead of the names
    inside it.
    """
    changes = []
    for file in (NamedFile(**values) for values in command["files"]):
        now = file.now()
        if now.resolved != file.resolved:
            tail = f"{os.sep}{os.path.normpath(file.name)}"
            places = [file.resolved, now.resolved, str(Path(file.base, file.name))]
            if all(place.endswith(tail) for place in places):
                places = [place.removesuffix(tail) for place in places]
            then, leads, name = places
            changes.append(f"{name} {'was' if then == name else 'pointed to'} {then} and now points to {leads}")
        elif now.digest != file.digest:
            changes.append(f"the content of {file.resolved} has changed")
    if _digest_file(str(command["benchmark"])) != command["content"]:
        changes.append(f"the content of {command['benchmark']} has changed")
    return list(dict.fromkeys(changes))


def has_same_data(command: Mapping[str, Any]) -> bool:
    """Return whether the files outside the benchmark's folder have not changed since the command was stored."""
    outside = [NamedFile(**file) for file in command["files"] if not file["inside"]]
    return all(file.now() == file for file in outside)


def find_data(folder: Path, name: str) -> Iterator[NamedFile]:
    """Yield the data file or folder that `name` refers to, unless `name` cannot be a path. Nothing is opened."""
    if "\0" not in name:
        place = str(folder.absolute())
        yield NamedFile.at(name, place, place)


def find_programs(folder: Path, texts: Iterable[str]) -> Iterator[NamedFile]:
    """Yield the files in `folder` that are named in `texts` and could be programs: as a whole text, or as a word of a
    command. A missing file counts if the word is clearly a file name. Words are relative to the folder or to the
    working directory. A folder only counts if its name is the whole text. If its name is a word, the folder's
    `__main__.py` counts instead, because that is what Python runs.
    """
    for text in texts:
        yield from _find_program(text, folder, folder)
        for word in dict.fromkeys(_words(text)):
            for base in dict.fromkeys((folder, Path.cwd())):
                for program in _find_program(word, folder, base):
                    if _kind_of(program.resolved) != stat.S_IFDIR:
                        yield program
                    else:
                        yield from _find_program(f"{word}/__main__.py", folder, base, absent=True)


def _words(text: str) -> Iterator[str]:
    """Yield the words of a command, including the values of options and the words of nested commands as in `sh -c`."""
    for word in _split(text):
        attached = word[2:] if word.startswith("-") and not word.startswith("--") else ""
        for part in (word, word.partition("=")[2], attached):
            if part and part != text:
                yield part
        if word != text:
            yield from _words(word)


def _split(text: str) -> list[str]:
    """Return the words of a command, split as a program's arguments, followed by its words split as a shell does with
    its operators. Text with an unclosed quote is only split at spaces, quotes and operators.
    """
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&`")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return [*shlex.split(text), *lexer]
    except ValueError:  # an unclosed quote, as in code; whatever runs the command reports it
        return [word for word in re.split(r"[\s'\"();<>|&`]+", text) if word]


def _find_program(name: str, folder: Path, base: Path, *, absent: bool = False) -> Iterator[NamedFile]:
    """Look up a name relative to `base`, and yield the file with its digest if it is in `folder`. A missing file counts
    if its name is clearly a path, or if `absent` is set.
    """
    path, place = base.absolute() / name, folder.absolute()
    if "\0" in name or not (absent or os.path.lexists(path) or _is_clear(name, base.absolute(), place)):
        return
    named = NamedFile.at(name, str(base.absolute()), str(place), program=True)
    if named.resolved != os.path.realpath(folder) and (named.inside or _lies_in(os.path.normpath(path), str(place))):
        yield named.with_digest()


def _is_clear(name: str, base: Path, folder: Path) -> bool:
    """Return whether the name of a missing file is clearly a path. This is False for anything that could be a command
    or a key, because keys must not be stored.
    """
    if any(map(str.isspace, name)):
        return False
    from_outside = not _lies_in(str(base), str(folder)) and _lies_in(os.path.normpath(base / name), str(folder))
    return from_outside or name.startswith(("./", "../")) or name.endswith(_SCRIPTS)


def _lies_in(path: str, folder: str) -> bool:
    """Return whether a path is the folder or inside it, without resolving links."""
    return Path(path).is_relative_to(folder)


def _kind_of(path: str) -> int | None:
    """Return the type of a file, as given by `stat.S_IFMT`, or None if its status cannot be read."""
    try:
        return stat.S_IFMT(Path(path).stat().st_mode)
    except OSError:
        return None


def _digest_file(path: str) -> str | None:
    """Return the SHA-256 digest of a file, or None if it cannot be read."""
    try:
        # O_NONBLOCK: the file may have been replaced by a FIFO.
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
