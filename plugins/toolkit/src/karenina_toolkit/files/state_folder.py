"""The folder for the state of a user's runs. No other user may write to it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from karenina_core.errors import ConfigError

MOST_BYTES: Final = 100_000_000
"""The maximum size of a file in the folder, in bytes. Karenina does not write larger files."""


class UserStateError(ConfigError):
    """Raised if the state folder or a file in it cannot be read or trusted."""

    def __init__(self, problem: str) -> None:
        super().__init__([problem])


def state_folder() -> Path:
    """Return the user's state folder, which need not exist: `KARENINA_STATE_HOME` if set, otherwise `karenina` in
    `XDG_STATE_HOME` or `~/.local/state`. Raises `UserStateError` if `KARENINA_STATE_HOME` is not an absolute path or
    there is no home folder.

    A relative `XDG_STATE_HOME` is ignored, as its specification requires.
    """
    own = os.environ.get("KARENINA_STATE_HOME")
    if own:
        if not Path(own).is_absolute():
            raise UserStateError(f"KARENINA_STATE_HOME must be an absolute path, not {own!r}")
        return Path(own)
    shared = os.environ.get("XDG_STATE_HOME")
    if shared and Path(shared).is_absolute():
        return Path(shared) / "karenina"
    try:
        return Path.home() / ".local" / "state" / "karenina"
    except RuntimeError as error:
        raise UserStateError(f"cannot find a state folder for this user ({error}); set XDG_STATE_HOME") from error


def make_own_folder(folder: Path) -> None:
    """Create a folder that only the user can access. If it exists, restrict its permissions. Raises `UserStateError` if
    others can put files into an existing folder, and `OSError` if the folder cannot be created.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_own_folder(folder)
    folder.chmod(0o700)


def check_own_folder(folder: Path) -> None:
    """Raise `UserStateError` if others can put files into the folder, or if another user owns it. Links and files are
    also rejected. Raises `FileNotFoundError` if the folder does not exist.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise UserStateError(f"the state folder {folder} is a link or a file, not a folder; remove it")
    if status.st_uid != os.geteuid():
        raise UserStateError(f"the state folder {folder} belongs to another user; remove it, or set XDG_STATE_HOME")
    if status.st_mode & 0o022:
        mode = stat.S_IMODE(status.st_mode)
        raise UserStateError(
            f"the state folder {folder} is writable by others (mode {mode:04o}); check its contents, then run `chmod "
            "700` on it"
        )


def find_file_flaw(found: os.stat_result) -> str | None:
    """Return the reason why a file must not be used, or None. A file must not be used if others can read it or may have
    changed it, if it is not a regular file, or if it is too large. `found` is the file's status.
    """
    if not stat.S_ISREG(found.st_mode):
        return "the path is not a regular file"
    if found.st_uid != os.geteuid():
        return "the file belongs to another user"
    if found.st_nlink != 1:
        return "the file has another name elsewhere (a hard link)"
    if found.st_mode & 0o077:
        return f"the file can be read or written by others (mode {stat.S_IMODE(found.st_mode):04o}, not 0600)"
    if found.st_size > MOST_BYTES:
        return f"the file size is {found.st_size:,} bytes, but Karenina writes at most {MOST_BYTES:,}"
    return None
