"""Files on the command line: a benchmark, checked as in `karenina check`, and a run's journal."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from karenina_core.errors import ConfigError

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_core.config import VerificationConfig
    from karenina_core.data.trust import Trust
    from karenina_terminal.screen import Screen

logger = logging.getLogger("karenina")

_LINES: Final = (".jsonl", ".ndjson")


def load_checked(
    file: Path,
    trust: Trust | Literal["all"] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    skip_broken: bool = False,
) -> Benchmark:
    """Load a benchmark. If it cannot be loaded, raise `BenchmarkErrors` with all errors in the file, not only the
    first. Raises `RestrictedValues` for a path that needs trust. `skip_broken` is the same as for `Benchmark.load`.
    """
    from karenina_benchmark import Benchmark, BenchmarkFileError
    from karenina_benchmark.checking import check_file

    try:
        return Benchmark.load(file, trust, skip_broken=skip_broken, columns=columns)
    except BenchmarkFileError:
        check_file(file, trust, columns)[1].raise_errors()
        raise


def select_usable(
    benchmark: Benchmark,
    trust: Trust | Literal["all"] | None,
    config: VerificationConfig,
    ids: Iterable[str],
    *,
    skip_broken: bool = False,
    journal: Path | None = None,
) -> list[str]:
    """Check the questions, and return the ids of those to run. If there are errors, `BenchmarkErrors` is raised; with
    `skip_broken`, questions with errors are skipped with a warning, and it is raised only for errors that do not
    concern a single question. For a missing attachment that was sent in the run with the `journal`, there is only a
    warning.

    The exception also lists values that need trust, so that they can be fixed at the same time.
    """
    from karenina_benchmark.checking import BenchmarkErrors, check_content, find_untrusted_values

    chosen = list(ids)
    findings = check_content(benchmark, trust, config, chosen, journal=journal)
    errors = [finding for finding in findings if finding.level == "error"]
    broken = {finding.question for finding in errors}
    if errors and (not skip_broken or None in broken):
        raise BenchmarkErrors([*errors, *find_untrusted_values(benchmark, trust)])
    for finding in findings:
        if finding.level == "warning":
            logger.warning("%s", finding)
    for error in errors:
        logger.warning("skipped because of an error: %s", error)
    return [id for id in chosen if id not in broken]


def find_journal(screen: Screen, path: Path) -> Path:
    """Return `path`, or the run's journal if `path` is a result file. A note says which journal is used. Raises
    `ConfigError` if the run has none.
    """
    from karenina_engine.journal.view import find_journal as journal_of
    from karenina_engine.results.result_file import default_journal

    if not is_results_file(path):
        return path
    journal = journal_of(path)
    if journal is None:
        usual = default_journal(path)
        why = f"{usual} belongs to another run" if usual.is_file() else f"{usual} does not exist"
        raise ConfigError(
            [f"{path} is a result file, but the journal of its run was not found ({why}); specify the journal instead"]
        )
    screen.note(f"{path} is a result file; using its journal, {journal}.")
    return journal


def is_results_file(path: Path) -> bool:
    """Return whether `path` is a readable result file (JSON Lines) rather than a journal, judging by its suffix and
    first character.
    """
    if path.suffix.lower() not in _LINES:
        return False
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False
