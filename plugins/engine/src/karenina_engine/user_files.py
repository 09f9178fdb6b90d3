"""The user's private files, including the list of trusted digests.

A private file is only read if no other user could have written it. To change a file, hold its lock (`locked`) and
replace it with `karenina_toolkit.files.replace_file(..., private=True)`.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from karenina_core.data.trust import Trust, digest_of
from karenina_core.errors import KareninaError
from karenina_core.text import replace_surrogates
from karenina_toolkit.files import replace_file

LOCK_SECONDS: Final = 20.0
"""The number of seconds to wait while another process holds the lock."""


_DIGEST_LENGTH = 64


class TrustFileError(KareninaError, ValueError):
    """Raised if the list of trusted digests cannot be read or written."""


def load_trust() -> Trust:
    """Load the digests of everything that the user has trusted with `karenina trust`. Raises `TrustFileError` if the
    file is malformed or unreadable, or if another user could have written it.
    """
    return Trust(frozenset(_read(trust_path())))


def digest_of_values(file: Path, values: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256 digest, in hexadecimal, of a file's resolved path and the names and values that the file sets,
    in any order. It changes if any value, name or folder changes.
    """
    text = json.dumps([str(file.resolve()), sorted(set(values))])
    return digest_of(f"restricted values\0{text}")


def trusts_values(trust: Trust, file: Path, values: Iterable[tuple[str, str]]) -> bool:
    """Return whether the user has trusted exactly these restricted values in the given file."""
    return trust.everything or (bool(trust.digests) and digest_of_values(file, values) in trust.digests)


def trust_path() -> Path:
    """Return the path of the list of trusted digests, `trusted.json`: in `KARENINA_CONFIG_HOME` if set, otherwise in
    `karenina` in `XDG_CONFIG_HOME` or `~/.config`.
    """
    own = os.environ.get("KARENINA_CONFIG_HOME")
    if own:
        return Path(own) / "trusted.json"
    shared = os.environ.get("XDG_CONFIG_HOME")
    return (Path(shared) if shared else Path.home() / ".config") / "karenina" / "trusted.json"


def store_trust(digests: Iterable[str], note: str = "") -> Path:
    """Add digests from `digest_of` to the user's list of trusted ones, with `note` and the current time, and return the
    file's path. Digests already in the file keep their notes. Raises `TrustFileError` if the file is malformed or
    cannot be written, and `ValueError` for an invalid digest.

    A valid digest is SHA-256 in lowercase hexadecimal.
    """
    new = list(digests)
    for digest in new:
        if not _is_digest(digest):
            raise ValueError(f"{digest!r} is not a SHA-256 digest, which has 64 characters from 0-9 and a-f")
    path = trust_path()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        with locked(path):  # without the lock, two commands at once could overwrite each other's digests
            entries = _read(path)
            for digest in new:
                entries.setdefault(digest, {"note": replace_surrogates(note), "trusted_at": now})
            text = json.dumps({"version": 1, "trusted": entries}, indent=2, ensure_ascii=False)
            replace_file(path, lambda file: file.write(text.encode()), private=True)
    except OSError as error:
        raise TrustFileError(f"cannot write the trusted digests to {path}: {error}") from error
    return path


def _read(path: Path) -> dict[str, Any]:
    """Return the trusted digests with their notes and times. If the file does not exist, returns an empty dict. Raises
    `TrustFileError` if the file is malformed or unreadable, or if another user could have written it.
    """
    try:
        text = read_private(path)
    except (OSError, UnicodeDecodeError) as error:
        raise TrustFileError(f"cannot read the trusted digests in {path}: {error}") from error
    if text is None:
        return {}
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TrustFileError(_broken_message(path, str(error))) from error
    entries = data.get("trusted") if isinstance(data, dict) else None
    if not isinstance(entries, dict) or data.get("version") != 1:
        raise TrustFileError(_broken_message(path, 'it does not have the form {"version": 1, "trusted": {...}}'))
    wrong = [digest for digest in entries if not _is_digest(digest)]
    if wrong:
        raise TrustFileError(_broken_message(path, f"{wrong[0]!r} is not a SHA-256 digest"))
    return entries


def _broken_message(path: Path, why: str) -> str:
    """Return the message for a malformed file of trusted digests."""
    return f"the trusted-digests file {path} is malformed ({why}); repair it, or delete it and trust your files again"


def _is_digest(text: str) -> bool:
    """Return whether a string is a SHA-256 digest in lowercase hexadecimal."""
    return len(text) == _DIGEST_LENGTH and not set(text) - set("0123456789abcdef")


def read_private(path: Path) -> str | None:
    """Return the text of one of the user's private files, or None if it does not exist. Raises `OSError` if it is not a
    regular file or others may have changed it, and `UnicodeDecodeError` if it is not UTF-8.

    A link is not a regular file. Others may have changed the file if it or its folder belongs to another user or is
    writable by everyone.
    """
    # O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    if path.is_symlink():
        raise _link_error(path)
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is not a regular file; remove it")
        check_folder(path.parent)
        _check_owner(path, status)
        return file.read().decode("utf-8")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a private file inside the `with` block, so that no other process replaces it. Raises `TimeoutError` if
    another process holds the lock for longer than `LOCK_SECONDS`, and `OSError` if other users can write to the folder.

    The file does not change between being read and being replaced. Its folder is created if necessary.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_folder(path.parent)
    lock = FileLock(path.with_name(path.name + ".lock"), mode=0o600)
    try:
        lock.acquire(timeout=LOCK_SECONDS, poll_interval=0.02)
    except Timeout:
        raise TimeoutError(f"another process has held the lock for {LOCK_SECONDS:g} s; try again") from None
    try:
        yield
    finally:
        lock.release()


def check_folder(folder: Path) -> None:
    """Raise `OSError` if the folder does not exist, or if another user could replace files in it."""
    status = folder.stat()
    _check_owner(folder, status, sticky_is_fine=True)


def _check_owner(place: Path, status: os.stat_result, *, sticky_is_fine: bool = False) -> None:
    """Raise `OSError` if a file or folder belongs to anyone but this user and root, or is writable by everyone. If
    `sticky_is_fine` is set, folders like /tmp are accepted, because users cannot replace each other's files there. On
    Windows, nothing is checked.
    """
    if not hasattr(os, "geteuid"):
        return
    if status.st_uid not in (os.geteuid(), 0):
        raise OSError(
            f"{place} belongs to another user (uid {status.st_uid}), so its content cannot be trusted; "
            "set KARENINA_CONFIG_HOME to a folder of your own"
        )
    if status.st_mode & stat.S_IWOTH and not (sticky_is_fine and status.st_mode & stat.S_ISVTX):
        raise OSError(f"{place} is writable by every user; check its content, then run: chmod o-w {place}")


def _link_error(path: Path) -> OSError:
    """Return the error for a private file that is a link."""
    return OSError(f"{path} is a link; replace it with a file, or set KARENINA_CONFIG_HOME to the folder of the target")
