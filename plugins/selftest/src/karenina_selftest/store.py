"""The stored scores of judges, and how reports show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import to_json

from karenina_core.catalog import __version__
from karenina_engine.model_settings import model_settings, models_in
from karenina_engine.results.rates import Rate
from karenina_engine.results.summary_text import percent
from karenina_engine.user_files import locked, read_private
from karenina_report.page.section import Cell, Column, IntervalPlot, PageRuns, PageSection, TableBlock
from karenina_report.run_notes import NotedRun, RunNote
from karenina_report.runs import iterate_results
from karenina_selftest.scores import JudgeScore
from karenina_toolkit.files import replace_file
from karenina_toolkit.files.state_folder import UserStateError, make_own_folder, state_folder

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig


_MOST: Final = 20
"""The number of self-tests kept for each judge. Older self-tests are removed."""
NAME: Final = "Self-test"
_READ: Final = 100
"""The number of results to read from a run, which is enough to find its judges."""


class StoredScore(BaseModel, defer_build=True):
    """The rates from one self-test.

    `judge` is `interface:model_name`. `cases` describes the cases (the pack's digest, the file, and their number).
    `settings` is a digest of the configuration. `when` is an ISO 8601 time in UTC.
    """

    model_config = ConfigDict(frozen=True)

    judge: str
    when: str
    version: str
    cases: str
    settings: str
    results: str
    false_pass: Rate
    false_fail: Rate
    unreadable: int
    failed: int
    undecided: int = 0


class _Scores(BaseModel, defer_build=True):
    scores: list[StoredScore] = []


def store_scores(scores: Iterable[JudgeScore], *, cases: str, settings: str, results: Path) -> None:
    """Store scores in the user's state folder, replacing any for the same judge, `cases` (a description) and `settings`
    (a digest), and keeping the last 20 of each judge. `results` is the result file. Raises `UserStateError` if a file
    there cannot be used.
    """
    when = datetime.now(UTC).isoformat(timespec="seconds")
    for score in scores:
        path = _path(score.judge)
        stored = StoredScore(
            judge=score.judge,
            when=when,
            version=__version__,
            cases=cases,
            settings=settings,
            results=str(results.absolute()),
            false_pass=score.false_pass,
            false_fail=score.false_fail,
            unreadable=score.unreadable,
            failed=score.failed,
            undecided=score.undecided,
        )
        try:
            make_own_folder(path.parent)
            with locked(path):
                others = [old for old in read_scores(score.judge) if (old.cases, old.settings) != (cases, settings)]
                _write(path, [*others[-_MOST + 1 :], stored])
        except OSError as error:
            raise UserStateError(f"cannot store the score of {score.judge}: {error}") from error


def _write(path: Path, scores: list[StoredScore]) -> None:
    """Replace a judge's file. Only this user can read it."""
    text = _Scores(scores=scores).model_dump_json(indent=1)
    replace_file(path, lambda file: file.write(text.encode()), private=True)


def read_scores(judge: str) -> Sequence[StoredScore]:
    """Return the stored scores of a judge (`interface:model_name`), with the oldest first; there are none if it was not
    tested. Raises `UserStateError` if the file is invalid or other users could have written to it.
    """
    path = _path(judge)
    try:
        text = read_private(path)
        scores = _Scores.model_validate_json(text).scores if text is not None else []
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise UserStateError(
            f"cannot read the stored self-tests in {path}: {error}. Remove the file and try again"
        ) from error
    return [score for score in scores if score.judge == judge]


def _path(judge: str) -> Path:
    """Return the path of the file with a judge's scores, which may not exist yet."""
    return state_folder() / "selftests" / f"{sha256(judge.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def settings_digest(config: VerificationConfig) -> str:
    """Return a digest of the settings that affect verdicts. Of each model, only the interface, model name, system
    prompt and temperature count; answering models and the run's name do not.
    """
    values = {name: value for name, value in config.given().items() if name not in ("answering_models", "run_name")}
    holding = {"parsing_models", *model_settings()} - {"answering_models"}
    models = {
        name: [
            (model.interface, model.model_name, model.system_prompt, model.temperature)
            for model in models_in(config.setting(name))
        ]
        for name in holding
        if name in values or name == "parsing_models"
    }
    shown = to_json([{**values, **dict(sorted(models.items()))}], serialize_unknown=True, fallback=repr)
    return sha256(shown).hexdigest()[:12]


_COLUMNS: Final = (
    Column("Judge"),
    Column("False passes", "share"),
    Column("Low", "share"),
    Column("High", "share"),
    Column("Must fail", "count"),
    Column("False fails", "share"),
    Column("Must pass", "count"),
    Column("Not judged", "count"),
    Column("Cases"),
    Column("When"),
)
_NOTE: Final = (
    "Stored results of `karenina selftest` on this machine, each with the settings of that test. Low and High are the "
    "bounds of the 95% interval of false passes. A judge without a row of numbers was not tested."
)


def selftest_sections(page: PageRuns) -> Sequence[PageSection]:
    """Return a section with the stored self-tests of the judges that gave verdicts in the runs, including judges that
    were not tested. There is none if this is true of all. Raises `UserStateError` if stored scores cannot be read.
    """
    results = [result for run in page.runs for result in run.results if result.outcome.has_verdict]
    judges = sorted({result.metadata.parsing_model for result in results})
    stored = {judge: read_scores(judge) for judge in judges}
    if not any(stored.values()):
        return ()
    rows = [row for judge in judges for row in _rows(judge, stored[judge])]
    plot = IntervalPlot("Judge", "False passes", "Low", "High")
    return [PageSection("selftest", "Self-tests of the judges", [TableBlock(_COLUMNS, rows, note=_NOTE, plot=plot)])]


def _rows(judge: str, scores: Sequence[StoredScore]) -> list[list[Cell]]:
    """Return a table row for each of a judge's scores, or one saying that the judge was not tested."""
    if not scores:
        return [[judge, *[None] * 7, "not tested", ""]]
    return [
        [
            judge,
            *(score.false_pass.value, score.false_pass.low, score.false_pass.high, score.false_pass.out_of),
            *(score.false_fail.value, score.false_fail.out_of, score.unreadable + score.failed + score.undecided),
            score.cases,
            score.when,
        ]
        for score in scores
    ]


def selftest_notes(runs: Sequence[NotedRun]) -> Sequence[RunNote]:
    """Return a note with the last self-test of each judge in the first 100 results of each run. Judges that were not
    tested, and runs without a result file, are skipped. Raises `UserStateError` if stored scores cannot be read.
    """
    judges: dict[str, None] = {}
    for run in runs:
        results = iterate_results(run.source) if run.source is not None else ()
        judges |= {result.metadata.parsing_model: None for result in islice(results, _READ)}
    latest = [scores[-1] for judge in judges if (scores := read_scores(judge))]
    return [RunNote(NAME, _text(score), score.model_dump(mode="json")) for score in latest]


def _text(stored: StoredScore) -> str:
    """Return a sentence for people with the rates, date and cases of a self-test."""
    rate = stored.false_pass
    bounds = f" [{percent(rate.low)}, {percent(rate.high)}]" if rate.value is not None else ""
    unreadable = f"; {stored.unreadable:,} replies could not be parsed" if stored.unreadable else ""
    return (
        f"{stored.judge} passed {percent(rate.value)}{bounds} of {rate.out_of:,} answers that must fail, and failed "
        f"{percent(stored.false_fail.value)} of {stored.false_fail.out_of:,} that must pass{unreadable} "
        f"({stored.when[:10]}, {stored.cases})"
    )
