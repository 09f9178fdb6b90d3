"""The commands of the user's own runs, stored for `karenina resume`.

Journals are not trusted, since they may come from anyone. A run's command is therefore stored separately in the user's
state folder, in `runs/<journal id>.json`, together with the path of the journal. Copies and other journals with the
same id have no command there.

In the same way, `rules/<journal id>.jsonl` contains the field rules of the run in words. Commands that print results
take them from there, which is faster than reading the benchmark again.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from karenina_engine.journal.named_files import NamedFile
from karenina_toolkit.files import replace_file
from karenina_toolkit.files.state_folder import (
    MOST_BYTES,
    UserStateError,
    check_own_folder,
    find_file_flaw,
    make_own_folder,
    state_folder,
)

_ID: Final = re.compile(r"[0-9a-f]{32}")
_VERSION: Final = 1
_UNREACHABLE: Final = 30 * 86400.0
"""The number of seconds to keep a command while its journal's folder is missing.

The folder may be on a drive that will be mounted again.
"""

_CURE: Final = "delete the file, and run the whole `karenina run` command again"

logger = logging.getLogger("karenina")


class _Command(BaseModel, defer_build=True):
    """A run's command, in the form written by `karenina_engine.journal.command`."""

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
    skip_broken: bool = False
    files: list[NamedFile]
    paths: str | None
    benchmark_names: list[str]


class _StateFile(BaseModel, defer_build=True):
    model_config = ConfigDict(strict=True)

    version: Literal[1]
    journal: str
    command: _Command


def new_id() -> str:
    """Return a random id for a journal."""
    return os.urandom(16).hex()


def is_id(value: object) -> bool:
    """Return whether `value` could be an id from `new_id`, so that it is safe to use in a file name."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def runs_folder() -> Path:
    """Return the folder that contains the commands. Raises `UserStateError` if there is no state folder."""
    return state_folder() / "runs"


def store_command(id: str, journal: Path, command: Mapping[str, Any]) -> None:
    """Store a run's command in the user's state folder under `id`, the id of its journal, and remove the commands of
    journals that no longer exist and older commands for the same path. If this fails, a warning is logged and the run
    continues, but `karenina resume` will not be able to repeat it.
    """
    try:
        folder = runs_folder()
        make_own_folder(folder)
        path = os.path.realpath(journal)
        text = json.dumps({"version": _VERSION, "journal": path, "command": command})
        replace_file(folder / f"{id}.json", lambda file: file.write(text.encode()), private=True)
        _remove_stale_commands(folder, id, path)
    except (OSError, UserStateError) as error:
        why = error.strerror or error if isinstance(error, OSError) else error
        logger.warning("the command of this run could not be stored, so `karenina resume` cannot repeat it: %s", why)


def read_own_command(id: object, journal: Path) -> dict[str, Any] | None:
    """Return the command of this user's run with `journal`, or None if there is none with both this id and this path.
    Raises `UserStateError` if the file is malformed or unreadable, or if another user could have written it.
    """
    if not is_id(id):
        return None
    file = runs_folder() / f"{id}.json"
    stored = _read(file)
    if stored is None or stored["journal"] != os.path.realpath(journal):
        return None
    return dict(stored["command"])


def store_rules(id: str, run: str, rules: Iterable[bytes]) -> None:
    """Store the field rules of a run, in words, in place of those stored with the same journal id. If they are too long
    or cannot be written, none are stored, and nothing is raised.

    `id` is the id of the journal, and `run` that of the run in result files. `rules` are blocks of lines of JSON, with
    the id of a template and its rules by field. Rules may take up to `MOST_BYTES`.
    """

    def write(file: BinaryIO) -> None:
        """Write the version and the run, then the blocks of rules. Raises `UserStateError` if they are too large."""
        file.write(json.dumps([_VERSION, run]).encode() + b"\n")
        for block in rules:
            file.write(block)
            if file.tell() > MOST_BYTES:
                raise UserStateError(f"the field rules of the run are larger than {MOST_BYTES:,} bytes")

    try:
        file = _rules_file(id)
        make_own_folder(file.parent)
        file.unlink(missing_ok=True)
        replace_file(file, write, private=True, sync=False)
    except (OSError, UserStateError):
        logger.debug("the rules of this run were not stored", exc_info=True)


def read_own_rules(id: str, run: object) -> dict[str, Mapping[str, str]] | None:
    """Return the field rules that `run` stored under its journal's `id`, by template id, or None if there are none.
    Call this only for a journal with a command of this user (see `read_own_command`). Raises `UserStateError` if the
    file cannot be used.
    """
    file = _rules_file(id)
    try:
        with _open(file) as lines:
            if json.loads(next(lines, b"null")) != [_VERSION, run]:
                return None
            return dict(map(json.loads, lines))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError) as error:
        raise UserStateError(f"the state file {file} is invalid ({error}); delete it") from error


def _rules_file(id: str) -> Path:
    """Return the file for the rules of a journal's last run. Raises `UserStateError` if there is no state folder."""
    return state_folder() / "rules" / f"{id}.jsonl"


def belongs_to_other_journal(id: object, journal: Path) -> bool:
    """Return whether this user ran the journal with this id in another place, where it still exists, so that `journal`
    is a copy of it. Returns False if there is no stored command with the id, or if it cannot be read.
    """
    if not is_id(id):
        return False
    try:
        stored = _read(runs_folder() / f"{id}.json")
    except UserStateError:
        return False
    return stored is not None and stored["journal"] != os.path.realpath(journal) and Path(stored["journal"]).exists()


def _read(file: Path) -> dict[str, Any] | None:
    """Return the contents of a state file, or None if it does not exist. Raises `UserStateError` if the file is
    malformed or unreadable, or if another user could have written it.
    """
    try:
        data = _load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UserStateError(f"the state file {file} is invalid ({error}); {_CURE}") from error
    try:
        _StateFile.model_validate(data)
    except ValidationError as error:
        raise UserStateError(
            f"the state file {file} does not contain a valid command (invalid fields: {error.error_count()}); {_CURE}"
        ) from None
    return dict(data)


def _load(file: Path) -> Any:
    """Return the JSON value in a state file, without checking that it is a command. Raises the errors of `_open`,
    `OSError`, `ValueError` and `RecursionError`.
    """
    with _open(file) as opened:
        return json.loads(opened.read(MOST_BYTES + 1))


@contextmanager
def _open(file: Path) -> Iterator[BinaryIO]:
    """Open a state file for reading in the `with` block. Raises `FileNotFoundError` if it does not exist, and
    `UserStateError` if it is unreadable, or if another user could have written it.
    """
    try:
        check_own_folder(file.parent)
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror or str(error)
        raise UserStateError(f"the state file {file} was not used: {why}; {_CURE}") from error
    with os.fdopen(handle, "rb") as opened:
        flaw = find_file_flaw(os.fstat(handle))
        if flaw is not None:
            raise UserStateError(f"the state file {file} was not used: {flaw}; {_CURE}")
        yield opened


def _remove_stale_commands(folder: Path, id: str, journal: str) -> None:
    """Remove the commands and rules of journals that were deleted, and of those at the path `journal` other than the
    journal `id`, which replaced them. Files that cannot be read or removed are skipped.
    """
    for file in list(_state_files(folder)):
        if file.stem == id:
            continue
        try:
            stored = _load(file)["journal"]  # not checked as by `_read`: there may be hundreds of files
            if stored == journal or _is_stale(Path(stored), file):
                file.unlink(missing_ok=True)
                _rules_file(file.stem).unlink(missing_ok=True)
        except (OSError, LookupError, TypeError, ValueError, RecursionError, UserStateError):
            logger.debug("the state file %s was left unchanged", file, exc_info=True)


def _state_files(folder: Path) -> Iterator[Path]:
    """Return the command files in the folder."""
    return (file for file in folder.glob("*.json") if is_id(file.stem))


def _is_stale(journal: Path, file: Path) -> bool:
    """Return whether the journal no longer exists. If its whole folder is missing, the journal counts as existing for
    `_UNREACHABLE` seconds after the command was stored.
    """
    if journal.exists():
        return False
    return journal.parent.exists() or time.time() - file.lstat().st_mtime > _UNREACHABLE
