"""Find the journal of a run from its result file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karenina_core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_cli.screen import Screen

_LINES: Final = (".jsonl", ".ndjson")


def find_journal(screen: Screen, path: Path) -> Path:
    """Return `path`, or the journal beside it if it is a result file. Raises `ConfigError` if there is none."""
    from karenina_engine.journal.view import find_journal as journal_of
    from karenina_engine.results.result_file import default_journal

    if not is_results_file(path):
        return path
    journal = journal_of(path)
    if journal is None:
        usual = default_journal(path)
        why = f"{usual} is of another run" if usual.is_file() else f"{usual} does not exist"
        raise ConfigError(
            [f"{path} is a result file, and the journal of its run is not beside it ({why}): name the journal"]
        )
    screen.note(f"{path} is a result file: its journal {journal} is used.")
    return journal


def is_results_file(path: Path) -> bool:
    """Return whether `path` is a file of JSON lines, as runs write their results, and not a journal."""
    if path.suffix.lower() not in _LINES:
        return False
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False
