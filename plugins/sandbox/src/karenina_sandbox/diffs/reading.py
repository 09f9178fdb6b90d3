"""Reading a unified diff, as `git diff`, `git format-patch` and `diff -ru` write it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from karenina_core.errors import KareninaError
from karenina_sandbox.diffs.binary import DamagedContent, TooLarge, read_content

MOST_READ: Final = 50_000_000
"""The maximum size of a diff in bytes."""
LINK: Final = 0o120000
_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_MARKS: Final = (b" ", b"+", b"-")
_NO_NEWLINE: Final = b"\\"
_CRLF: Final = re.compile(rb"^(?:diff --git |\+\+\+ )[^\n]*\r$", re.MULTILINE)
_HEADER: Final = re.compile(rb"^(?:diff --git |\+\+\+ )", re.MULTILINE)
_NAMED_ONLY: Final = re.compile(rb"^(?:deleted|file|link) (?:'(.+)'|\"(.+)\")\r?$", re.MULTILINE)
"""A line of `Patch.text`, which only names a change."""
_NOT_EXPORTED: Final = re.compile(rb"^(?!(?:deleted|directory|file|link) ['\"])[^-+@ \\\r\n]", re.MULTILINE)
"""The start of a line that `Patch.text` never contains, such as `diff --git`, `Index: ` and a message."""
_ESCAPES: Final = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class DiffError(KareninaError, ValueError):
    """Raised if a diff does not fit the files, or is none."""


class UnreadableDiff(DiffError):
    """Raised for a diff that git may be able to apply, but this module is not."""


@dataclass(slots=True)
class FileChange:
    """The change of one file. `old` and `new` are None if the file does not exist before or after it.

    If it is `copied`, the old file stays. `mode` is the new mode, `old_mode` the old one, if the diff states them.
    `content` is the new content of a binary file, or None for a text. If `is_delta`, it states what differs.
    """

    old: str | None = None
    new: str | None = None
    mode: int | None = None
    old_mode: int | None = None
    copied: bool = False
    named: str | None = None
    """The name in `diff --git`, if it is the same before and after."""
    has_prefixes: bool = True
    """Whether the names begin with `a/` and `b/`."""
    moved: bool = False
    """Whether there are lines `rename` or `copy`, which have no prefixes."""
    hunks: list[tuple[int, list[tuple[bytes, bytes]]]] = field(default_factory=list)
    content: bytes | None = None
    is_delta: bool = False

    @property
    def is_link(self) -> bool:
        """Whether the new file is a link."""
        return stat.S_IFMT(self.mode if self.mode is not None else self.old_mode or 0) == LINK


def read_diff(diff: bytes) -> Iterator[FileChange]:
    """Yield the changes in a diff. Raises `DiffError` if it cannot be read, and `UnreadableDiff` if it only names some
    of its changes, as a patch that Karenina wrote for people does.
    """
    if _NOT_EXPORTED.search(diff) is None:
        for named in _NAMED_ONLY.finditer(diff):
            if not _contains_change_of(named[1] or named[2], diff):
                line = ascii(named[0])[1:]
                raise UnreadableDiff(
                    f"it was exported for people, and the line {line} only names a change; judge the run again with "
                    "--replay"
                )
    return _read(_lines(diff))


def _contains_change_of(path: bytes, diff: bytes) -> bool:
    """Return whether a diff contains the changed lines of the file `path`, which an export does not also name."""
    return re.search(rb"^(?:---|\+\+\+) (?:\w/)?" + re.escape(path) + rb"\s*$", diff, re.MULTILINE) is not None


def _lines(diff: bytes) -> list[bytes]:
    """Return the lines of a diff. If its headers end with CRLF, as after a conversion, every CRLF becomes LF."""
    first = _HEADER.search(diff)
    if first is not None and _CRLF.match(diff, first.start()):
        diff = diff.replace(b"\r\n", b"\n")
    return diff.split(b"\n")


def _read(lines: list[bytes]) -> Iterator[FileChange]:
    """Yield the change of each file in the lines of a diff, skipping lines that are not part of one. Raises `DiffError`
    if a change is damaged, and `UnreadableDiff` if only git may be able to read it.
    """
    change: FileChange | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith(b"diff --git "):
            if change is not None:
                yield _checked(change)
            change = FileChange()
            _read_names(change, line.removeprefix(b"diff --git ").rstrip())
        elif line.startswith((b"diff --cc ", b"diff --combined ")):
            raise UnreadableDiff("the patch is the combined diff of a merge; create it with `git diff COMMIT`")
        elif change is not None and not change.hunks and _read_header(change, line, lines, at):
            pass
        elif line.startswith(b"--- ") and at < len(lines) and lines[at].startswith(b"+++ "):
            if change is None or change.hunks:
                if change is not None:
                    yield _checked(change)
                change = FileChange()
            if not change.moved:
                change.old, change.new = _named(change, line[4:], lines[at][4:])
            at += 1
            _refuse_loose_lines(change, lines, at)
        elif match := _HUNK.match(line):
            if change is None:
                raise DiffError("the patch contains a change without a file name")
            left, right = (1 if count is None else int(count) for count in (match[2], match[4]))
            body: list[tuple[bytes, bytes]] = []
            while at < len(lines) and (left > 0 or right > 0 or lines[at].startswith(_NO_NEWLINE)):
                mark, text = lines[at][:1] or b" ", lines[at][1:]
                if lines[at] == b"\r":  # editors remove the space of an empty line
                    mark, text = b" ", b"\r"
                at += 1
                if mark == _NO_NEWLINE and body:
                    body[-1] = (body[-1][0], body[-1][1].removesuffix(b"\n"))
                elif mark in _MARKS:
                    body.append((mark, text + b"\n"))
                    left -= mark != b"+"
                    right -= mark != b"-"
                else:
                    break
            if left or right:
                raise DiffError(f"the patch for {change.new or change.old!r} is cut off, or its line numbers are wrong")
            change.hunks.append((int(match[1]), body))
            _refuse_loose_lines(change, lines, at)
        elif change is not None and (line.startswith(b"@@ -") or (line.startswith(b"@@") and not change.hunks)):
            raise _damaged(change, f"the line {ascii(line[:80])[1:]} is not a hunk header such as '@@ -1,2 +1,3 @@'")
        elif change is not None and not change.hunks and line.startswith(b"Property changes on: "):
            change = None  # Subversion names the file before properties, too
    if change is not None:
        yield _checked(change)


def _checked(change: FileChange) -> FileChange:
    """Return a change whose end was reached. Raises `DiffError` if it states nothing that changes."""
    changes = change.hunks or change.content is not None or change.mode is not None or change.moved
    if not changes and change.old == change.new is not None:
        raise _damaged(change, "it is cut off, or states no change")
    return change


def _refuse_loose_lines(change: FileChange, lines: list[bytes], at: int) -> None:
    """Raise `DiffError` if added or removed lines follow at index `at`, where no hunk is open. Lines of context, which
    change nothing, are allowed, and so is the line `-- ` before the signature of a mail.
    """
    while at < len(lines) and lines[at].startswith(b" ") and lines[at].strip():
        at += 1
    line, following = (b"".join(lines[number : number + 1]) for number in (at, at + 1))
    if line.startswith(b"--") and (following.startswith(b"+++ ") or not line.strip(b"- \r")):
        return
    if line.startswith((b"+", b"-")):
        raise _damaged(
            change, f"the line {ascii(line[:80])[1:]} belongs to no hunk; the line numbers are wrong or missing"
        )


def _damaged(change: FileChange, reason: str) -> DiffError:
    return DiffError(f"the patch for {change.new or change.old!r} is damaged: {reason}")


def _read_header(change: FileChange, line: bytes, lines: list[bytes], at: int) -> bool:
    """Return whether `line`, which precedes `lines` from index `at`, is a header line before the first hunk, and if so,
    store what it states in `change`. Raises `DiffError` or `UnreadableDiff` if its binary content cannot be read.
    """
    name = change.new or change.old
    if line.startswith(b"GIT binary patch"):
        try:
            change.content, change.is_delta = read_content(lines[at:], MOST_READ)
        except DamagedContent as error:
            kind = UnreadableDiff if isinstance(error, TooLarge) else DiffError
            raise kind(f"the binary content of {name!r} in the patch {error}") from None
    elif line.startswith(b"Binary files "):
        if change.new is not None:
            raise UnreadableDiff(f"the patch lacks the content of {name!r}; create it with `git diff --binary`")
    elif line.startswith(b"new file mode "):
        change.old, change.mode = None, _mode(line)
    elif line.startswith(b"new mode "):
        change.mode = _mode(line)
    elif line.startswith(b"deleted file mode "):
        change.new, change.old_mode = None, _mode(line)
    elif line.startswith(b"index ") and len(line.split()) == 3:
        change.old_mode = _mode(line)
    elif line.startswith((b"rename from ", b"copy from ")):
        change.old, change.moved = _decode(line.partition(b" from ")[2]), True
        change.copied = line.startswith(b"copy")
    elif line.startswith((b"rename to ", b"copy to ")):
        change.new, change.moved = _decode(line.partition(b" to ")[2]), True
    else:
        return False
    return True


def _mode(line: bytes) -> int:
    """Return the octal file mode at the end of a header line. Raises `DiffError` if there is none."""
    try:
        return int(line.split()[-1], 8)
    except ValueError:
        raise DiffError(f"a header line of the patch has no file mode: {ascii(line)[2:80]}") from None


def _read_names(change: FileChange, names: bytes) -> None:
    """Set the names of a change from those after `diff --git` if they are equal except for their prefixes.

    If they are not, the file is moved, and later lines have the names. For an empty file, or if only the mode changes,
    there are no later names.
    """
    middle = len(names) // 2
    old, new = _decode(names[:middle]), _decode(names[middle + 1 :])
    if len(names) % 2 and names[middle : middle + 1] == b" ":
        if old == new:
            change.old = change.new = change.named = old
            change.has_prefixes = False
        elif (name := _without_prefix(old)) == _without_prefix(new):
            change.old = change.new = change.named = name


def _decode(name: bytes) -> str:
    """Decode a file's name, without the quotes and escapes that git uses for unusual characters."""
    name = name.rstrip(b"\t\r\n")
    if name[:1] == b'"' and name[-1:] == b'"':
        name = re.sub(
            rb"\\([0-3][0-7]{2}|.)",
            lambda match: bytes([int(match[1], 8)]) if len(match[1]) == 3 else _ESCAPES.get(match[1], match[1]),
            name[1:-1],
        )
    return os.fsdecode(name)


def _named(change: FileChange, old: bytes, new: bytes) -> tuple[str | None, str | None]:
    """Return the old and new path of a change from its lines `---` and `+++`, without their prefixes, and None for
    /dev/null.

    Git may also name what it compares (`i/`, `w/`, `c/`, `o/`), and `diff -r` two folders of any name.
    """
    before, after = (_decode(name.split(b"\t")[0]) for name in (old, new))
    if "/dev/null" in (before, after):
        name = change.named or _without_usual_prefix(after if before == "/dev/null" else before)
        return (None if before == "/dev/null" else name, None if after == "/dev/null" else name)
    if before == after and not change.has_prefixes:
        return before, after
    if before != after and _without_prefix(before) == _without_prefix(after) is not None:
        return _without_prefix(before), _without_prefix(after)
    return _without_usual_prefix(before), _without_usual_prefix(after)


def _without_prefix(name: str) -> str | None:
    """Return a path without its first folder, or None if it has none."""
    return name.partition("/")[2] or None


def _without_usual_prefix(name: str) -> str:
    return name[2:] if name[:2] in ("a/", "b/") else name
