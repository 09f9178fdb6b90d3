"""The commands of a user's own runs, kept in a folder of that user: what `karenina resume` goes by.

A journal may come from anybody, so that it carries no authority. The command of a run is therefore kept apart from it,
in `<state folder>/runs/<id of the journal>.json`, together with the path of the journal: a copy of the journal, or a
journal with the same id elsewhere, has no command here.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from karenina_core.errors import ConfigError
from karenina_engine.results.private_files import replace_private

_ID: Final = re.compile(r"[0-9a-f]{32}")
_VERSION: Final = 1
_MOST_BYTES: Final = 100_000_000
_UNREACHABLE: Final = 30 * 86400.0
"""Seconds for which a command is kept although the folder of its journal is not there: a drive may be mounted again."""

logger = logging.getLogger("karenina")


class UserStateError(ConfigError):
    """A file of the state folder that cannot be trusted or read."""

    def __init__(self, problem: str) -> None:
        super().__init__([problem])


class _Command(BaseModel):
    """What `karenina_engine.journal.command.command_of` writes."""

    folder: str
    benchmark: str
    content: str
    config_file: str | None
    config: dict[str, Any]
    questions: list[str] | None
    output: str | None
    trust_all: bool
    trusted: str | None
    benchmark_config: str


class _StateFile(BaseModel):
    model_config = ConfigDict(strict=True)

    version: Literal[1]
    journal: str
    command: _Command


def new_id() -> str:
    """Return a random id for a journal."""
    return os.urandom(16).hex()


def is_id(value: object) -> bool:
    """Return whether `value` is an id as `new_id` makes them, and so may be part of a file name."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def runs_folder() -> Path:
    """Return the folder of the commands.

    It is `runs` in `KARENINA_STATE_HOME`, else in `karenina` in `XDG_STATE_HOME`, else in `~/.local/state/karenina`.
    Raises `UserStateError` if `KARENINA_STATE_HOME` is not an absolute path; a relative `XDG_STATE_HOME` is ignored, as
    its specification says.
    """
    own = os.environ.get("KARENINA_STATE_HOME")
    if own:
        if not Path(own).is_absolute():
            raise UserStateError(f"KARENINA_STATE_HOME is {own!r}: set an absolute path")
        return Path(own) / "runs"
    shared = os.environ.get("XDG_STATE_HOME")
    if shared and Path(shared).is_absolute():
        return Path(shared) / "karenina" / "runs"
    try:
        return Path.home() / ".local" / "state" / "karenina" / "runs"
    except RuntimeError as error:
        raise UserStateError(f"there is no folder for the state of this user ({error}): set XDG_STATE_HOME") from error


def keep_command(id: str, journal: Path, command: Mapping[str, Any]) -> None:
    """Store the command of the run that works on `journal`, and remove those whose journal is gone.

    A folder that cannot be written costs `karenina resume` and not the run: it is logged as a warning.
    """
    try:
        folder = runs_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _own_folder(folder)
        folder.chmod(0o700)
        path = os.path.realpath(journal)
        text = json.dumps({"version": _VERSION, "journal": path, "command": command})
        replace_private(folder / f"{id}.json", text)
        _sweep(folder, id, path)
    except (OSError, UserStateError) as error:
        why = error.strerror or error if isinstance(error, OSError) else error
        logger.warning("the command of this run is not kept, so that `karenina resume` cannot give it again: %s", why)


def own_command(id: object, journal: Path) -> dict[str, Any] | None:
    """Return the command that a run of this user on `journal` was given; None if there was no such run.

    Raises `UserStateError` if there is a file that others may have written, or that is broken.
    """
    if not is_id(id):
        return None
    file = runs_folder() / f"{id}.json"
    found = _read(file)
    if found is None or found["journal"] != os.path.realpath(journal):
        return None
    return dict(found["command"])


def is_of_another(id: object, journal: Path) -> bool:
    """Return whether this user ran a journal of this id at another place, so that `journal` is a copy of it."""
    if not is_id(id):
        return False
    try:
        found = _read(runs_folder() / f"{id}.json")
    except UserStateError:
        return False
    return found is not None and found["journal"] != os.path.realpath(journal) and Path(found["journal"]).exists()


def _read(file: Path) -> dict[str, Any] | None:
    """Return what a state file holds; None if there is none. Raises `UserStateError`."""
    cure = "delete it, and give the whole `karenina run` command again"
    try:
        _own_folder(file.parent)
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror or str(error)
        raise UserStateError(f"the state file {file} is not used: {why}; {cure}") from error
    with os.fdopen(handle, "rb") as opened:
        flaw = _not_private(os.fstat(handle))
        if flaw is not None:
            raise UserStateError(f"the state file {file} is not used: {flaw}; {cure}")
        try:
            data = json.loads(opened.read(_MOST_BYTES + 1))
        except (OSError, ValueError, RecursionError) as error:
            raise UserStateError(f"the state file {file} is broken ({error}): {cure}") from error
    try:
        _StateFile.model_validate(data)
    except ValidationError as error:
        raise UserStateError(
            f"the state file {file} is broken: it does not hold the command of a run ({error.error_count()} flaws); "
            f"{cure}"
        ) from None
    return dict(data)


def _own_folder(folder: Path) -> None:
    """Check that only the user can put files into the folder. Raises `UserStateError`, and `FileNotFoundError`."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UserStateError(f"the state folder {folder} is not a folder: remove it")
    if found.st_uid != os.geteuid():
        raise UserStateError(f"the state folder {folder} belongs to another user: remove it, or set XDG_STATE_HOME")
    if found.st_mode & 0o022:
        mode = stat.S_IMODE(found.st_mode)
        raise UserStateError(
            f"the state folder {folder} can be written by others (mode {mode:04o}): look into it, and `chmod 700` it"
        )


def _not_private(found: os.stat_result) -> str | None:
    """Return why a file may hold what others wrote; None if it is the user's alone."""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if found.st_uid != os.geteuid():
        return "it belongs to another user"
    if found.st_nlink != 1:
        return "it has another name elsewhere (a hard link)"
    if found.st_mode & 0o077:
        return f"others can read or write it (mode {stat.S_IMODE(found.st_mode):04o}, not 0600)"
    if found.st_size > _MOST_BYTES:
        return f"it has {found.st_size:,} bytes, and none of Karenina's has more than {_MOST_BYTES:,}"
    return None


def _sweep(folder: Path, id: str, journal: str) -> None:
    """Remove the commands of journals that are gone, and earlier ones of the journal at this path."""
    for file in list(_state_files(folder)):
        if file.stem == id:
            continue
        try:
            found = _read(file)
            if found is not None and (found["journal"] == journal or _is_gone(Path(found["journal"]), file)):
                file.unlink(missing_ok=True)
        except (OSError, ValueError, UserStateError):
            logger.debug("the state file %s was left as it is", file, exc_info=True)


def _state_files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.glob("*.json") if is_id(file.stem))


def _is_gone(journal: Path, file: Path) -> bool:
    if journal.exists():
        return False
    return journal.parent.exists() or time.time() - file.lstat().st_mtime > _UNREACHABLE
