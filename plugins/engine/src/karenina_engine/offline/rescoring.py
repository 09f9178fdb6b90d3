"""Rescoring a run from its journal, without any calls.

Judges never see the ground truth, so their replies remain valid when it changes. The same is true for new tolerances,
weights and traits. Every item of the last run goes through its stages again with the stored replies, and the new result
is compared with the old one. The journal does not change, except for calls that are made because of `ask`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import ItemId, VerificationResult
from karenina_core.errors import ConfigError
from karenina_engine.check.plugin_checks import loaded_distributions, warn_about_absent
from karenina_engine.journal.view import JournalView
from karenina_engine.offline.replay import EarlierResult, Replay, ReplayReplies, replay_items
from karenina_engine.results.aggregate import GroupKey, RunTally, Summary
from karenina_engine.results.kept_files import FileStore, files_folder
from karenina_engine.results.question_units import unit_of_question
from karenina_engine.results.result_file import (
    check_output,
    default_journal,
    header_line,
    open_line_writer,
    prepare_output,
)
from karenina_engine.results.result_lines import LineWriter, dump_result
from karenina_engine.results.summary_text import group_lines, number_text
from karenina_engine.run.process_pool import ProcessPool, Work, can_fork
from karenina_engine.run.request import RunRequest
from karenina_engine.settings import EngineSettings
from karenina_terminal.notebook_html import SectionsView, sections_of
from karenina_terminal.text_layout import Facts, Grid, Section, Title
from karenina_toolkit.plugin_lookup import plugins_of
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.trust import Trust
    from karenina_engine.question_source import QuestionSource


CHANGE_HEAD: Final = ("Question", "Models", "Replicate", "Before", "After", "Changed", "Why")
CHANGE_TEXTS: Final = (0, 1, 3, 4, 5, 6)
"""The indexes of the columns in `CHANGE_HEAD` that contain text. The replicate is a number."""
_MOST_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Change:
    """An item whose score changed.

    `item` names the item's question, answering model, judge and replicate. `fields` and `traits` contain the old and
    new values of the fields and traits that changed, and `granular` contains the old and new granular results. A
    missing value is None. `why` is the reason for the new outcome.
    """

    item: ItemId
    before: Outcome
    after: Outcome
    fields: Mapping[str, tuple[bool | None, bool | None]] = field(default_factory=dict)
    traits: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    granular: tuple[Any, Any] | None = None
    why: str = ""

    @property
    def flipped(self) -> bool:
        """Whether the item had a verdict both times and the verdict changed."""
        return (
            self.before.judged
            and self.after.judged
            and (self.before is Outcome.CORRECT) is not (self.after is Outcome.CORRECT)
        )

    @property
    def missing(self) -> bool:
        """Whether the item had a verdict before but can no longer be judged, usually because a reply is missing.
        Undecided items are not included, since they have been compared with the ground truth.
        """
        return self.before.judged and not self.after.judged and not self.undecided

    @property
    def undecided(self) -> bool:
        """Whether the item is undecided now, but was not before."""
        return self.after is Outcome.UNDECIDED and self.before is not Outcome.UNDECIDED

    @property
    def decided(self) -> bool:
        """Whether the item was undecided before but has a verdict now."""
        return self.before is Outcome.UNDECIDED and self.after.has_verdict


@dataclass(slots=True, repr=False)
class RescoreReport(SectionsView):
    """The result of rescoring: summaries of the same items before and after, and the changes in run order.

    `gone` is the number of items whose question is no longer in the benchmark. `new` is the number of questions that
    have no result.
    """

    before: Summary
    after: Summary
    changes: list[Change]
    gone: int
    new: int
    seconds: float

    @property
    def flips(self) -> list[Change]:
        """The changes in which the verdict changed."""
        return [change for change in self.changes if change.flipped]

    def ordered_changes(self) -> list[Change]:
        """Return all changes: first those of verdicts, then those from or to undecided, then the others."""
        return sorted(
            self.changes, key=lambda change: 0 if change.flipped else 1 if change.undecided or change.decided else 2
        )

    @property
    def missing(self) -> list[Change]:
        """The changes of items that could not be judged again."""
        return [change for change in self.changes if change.missing]


def report_rows(report: RescoreReport) -> Iterator[tuple[str, str]]:
    """Yield a report's lines as pairs of a name (empty for a continued line) and a text. Counts of 0 are left out,
    except that of flips.
    """
    flips = report.flips
    better = sum(change.after is Outcome.CORRECT for change in flips)
    for name, summary in (("Before", report.before), ("After", report.after)):
        for place, line in enumerate(group_lines(summary)):
            yield "" if place else name, line
    worse = len(flips) - better
    yield "Flips", f"{quantity(len(flips), 'item')}: {worse} no longer correct, {better} now correct"
    undecided, decided = (sum(getattr(change, name) for change in report.changes) for name in ("undecided", "decided"))
    if undecided or decided:
        yield "Undecided", f"{quantity(undecided, 'item')} now undecided, {decided:,} no longer undecided"
    others = len(report.changes) - len(flips) - len(report.missing) - undecided - decided
    if others:
        yield "Besides", f"{quantity(others, 'item')} changed in fields or scores, but not in the verdict"
    if report.missing:
        first = report.missing[0]
        yield "Missing", f"{quantity(len(report.missing), 'item')} could not be judged again: {first.why}"
    if report.gone:
        yield "Left out", f"{quantity(report.gone, 'item')} for questions that are no longer in the benchmark"
    if report.new:
        yield (
            "New",
            f"{quantity(report.new, 'question')} without a result; run the benchmark to evaluate new questions",
        )


def change_cells(change: Change) -> list[str]:
    """Return a change as a table row with the columns of `CHANGE_HEAD`."""
    question, answering, judge, replicate = change.item
    models = answering if judge == answering else f"{answering}, judged by {judge}"
    values = [change.before.value, change.after.value, _changes_text(change), change.why]
    return [question, models, str(replicate), *values]


@sections_of.register(RescoreReport)
def _sections(report: RescoreReport) -> Iterator[Section]:
    """Yield the sections of a report: the facts, and at most `_MOST_SHOWN` changes."""
    yield [Title(f"Rescored {quantity(report.after.items, 'item')}"), Facts([*report_rows(report)])]
    changes = report.ordered_changes()
    if changes:
        shown = min(len(changes), _MOST_SHOWN)
        rows = [change_cells(change) for change in changes[:shown]]
        yield [
            Title(f"Changes ({shown} of {quantity(len(changes), 'item')})"),
            Grid([CHANGE_HEAD, *rows], CHANGE_TEXTS),
        ]


def _changes_text(change: Change) -> str:
    """Return the old and new verdict of each changed field, trait and granular score, one per line."""
    parts = [f"{name}: {_passed_text(was)} -> {_passed_text(now)}" for name, (was, now) in change.fields.items()]
    parts += [f"{name}: {was} -> {now}" for name, (was, now) in change.traits.items()]
    if change.granular is not None:
        parts.append(f"granular: {_number(change.granular[0])} -> {_number(change.granular[1])}")
    return "\n".join(parts)


def _passed_text(passed: bool | None) -> str:
    """Return "passes" or "fails", or "-" if `passed` is None."""
    return "-" if passed is None else "passes" if passed else "fails"


def _number(value: Any) -> str:
    """Return a granular result as text. Only floats are rounded."""
    return number_text(value) if isinstance(value, float) else str(value)


_CHUNK: Final = 200
"""The number of questions that a process rescores at a time."""

logger = logging.getLogger("karenina")


@dataclass(frozen=True, slots=True)
class _Job:
    replay: Replay
    writes: bool
    full: bool
    ids: Sequence[str]


_Score = tuple[Outcome, Any, str]
"""An outcome, the granular result, and the id of the template."""
_Scores = tuple[GroupKey, str, _Score, _Score]


@dataclass(slots=True)
class _ChunkReport:
    """The outcomes and granular results of some questions before and after, and their changes.

    `lines` contains the new results if they will be written to a file.
    """

    scores: list[_Scores]
    changes: list[Change]
    lines: list[str]


def rescore(
    journal: str | Path,
    benchmark: QuestionSource,
    config: VerificationConfig,
    *,
    question_ids: Sequence[str] | None = None,
    trust: Trust | Literal["all"] | None = None,
    output: str | Path | None = None,
    ask: bool = False,
    processes: int = 1,
    by_id: bool = False,
    on_scored: Callable[[Sequence[Outcome], int], None] | None = None,
) -> RescoreReport:
    """Score the last run in `journal` again, for all questions or those in `question_ids`, with a changed benchmark or
    configuration, without calling a model unless `ask` is set, and return what changed. The journal keeps its results;
    the new ones are only written to `output`, if it is given. An item whose reply is missing becomes an error. If no
    item can be judged anymore, raises `ConfigError` without writing anything.

    An item also becomes an error if a prompt would show changed ground truth to a model (`PromptTask.shows_truth`). Set
    `ask` to make such calls and store their replies. If the answer itself is generated again because a few-shot example
    changed, it is also judged again. Unknown ids in `question_ids` are ignored. `output` is a JSONL file; an existing
    file is renamed.

    The work is divided among `processes` if no calls are made, the system can fork, and this process has no threads. If
    `by_id` is set, replies are found by the model's id alone, as a `ModelLabel` requires. `on_scored` is called from
    time to time with the new outcomes and the total number of items.

    Raises `JournalError` if the journal cannot be read, `PlanError` if a question has no valid plan,
    `BenchmarkFileError` if a question cannot be read, and `ConfigError` for other problems.
    """
    from karenina_engine.check.restricted_values import require_trust

    began = time.monotonic()
    _, config = require_trust(benchmark, config, trust)
    with JournalView(journal) as view:
        asked, run, used = view.count_results(), view.run_digest(), view.status().distributions
    if not asked:
        raise ConfigError(
            [f"the journal {journal} contains no results from its last run, so there is nothing to rescore"]
        )
    chosen = benchmark.ids if question_ids is None else question_ids
    selected = [benchmark.get(id).id if question_ids is not None else id for id in chosen if id in benchmark]
    ids = [id for id in selected if id in asked]
    if not ids:
        raise ConfigError([f"no question in the benchmark has a result in {journal}; use the benchmark of that run"])
    if output is not None:
        check_output(Path(output))
    before, after = RunTally(), RunTally()
    units = {id: unit_of_question(benchmark.get(id)) for id in ids}
    total = sum(asked[id] for id in ids)
    changes: list[Change] = []
    distributions = loaded_distributions(plugins_of(config))
    warn_about_absent(Path(journal), used, distributions)
    held = [header_line(distributions, run, rescored=True)]
    full, writer = config.section(EngineSettings).full_results, LineWriter()
    with ExitStack() as stack:
        add: Callable[[Iterable[str]], None] | None = None
        files = _file_store(Path(journal), Path(output), config) if output is not None else None
        request = RunRequest(benchmark, config, trust=trust)
        replay = Replay(request, Path(journal), ask, by_id, files or FileStore.that_writes_nothing())
        for part in _reports(_Job(replay, output is not None, full, ids), 1 if ask else processes):
            for group, question, *scores in part.scores:
                for tally, (outcome, granular, template_id) in zip((before, after), scores, strict=True):
                    tally.add(group, outcome, units[question], granular, template_id=template_id)
            changes += part.changes
            held += part.lines if full else [line for text in part.lines for line in writer.lines(text)]
            outcomes = [now[0] for *_, now in part.scores]
            if output is not None and add is None and any(outcome.judged for outcome in outcomes):
                add = stack.enter_context(open_output(Path(output)))
            if add is not None:
                add(held)
                held.clear()
            if on_scored is not None:
                on_scored(outcomes, total)
        missing = [change for change in changes if change.missing]
        if missing and len(missing) == len(after):
            named = benchmark.path or "this benchmark"
            raise ConfigError(
                [
                    f"no item in {journal} can be judged again with {named}, so nothing was written; use the "
                    f"benchmark of that run, or make new calls with `karenina run`. The first reason: {missing[0].why}"
                ]
            )
        if output is not None and add is None:
            stack.enter_context(open_output(Path(output)))(held)
    rescored = set(ids)
    gone = sum(count for id, count in asked.items() if id not in rescored) if question_ids is None else 0
    new = len(selected) - len(ids)
    return RescoreReport(before.summary(), after.summary(), changes, gone, new, time.monotonic() - began)


def _file_store(journal: Path, output: Path, config: VerificationConfig) -> FileStore:
    """Return the store for the run's files. If the output is in another folder than the journal, the files are copied
    to that folder.
    """
    settings, earlier = config.section(EngineSettings), files_folder(journal)
    if output.absolute().parent == journal.absolute().parent:
        return FileStore(earlier, settings.kept_file_bytes, settings.kept_files_bytes)
    folder = files_folder(default_journal(output))
    return FileStore(folder, settings.kept_file_bytes, settings.kept_files_bytes, earlier=earlier)


@contextmanager
def open_output(path: Path) -> Iterator[Callable[[Iterable[str]], None]]:
    """Open the file for the new results, and yield a function that writes lines to it. An existing file is renamed, and
    a warning is logged. Raises `ConfigError` if the file cannot be written.
    """
    moved = prepare_output(path)
    if moved is not None:
        logger.warning("%s contained earlier results, which are kept in %s", path, moved)
    with open_line_writer(path) as add:
        yield add


def _reports(job: _Job, processes: int) -> Iterator[_ChunkReport]:
    """Yield the reports on all chunks in order. They are made in this process or, if `processes` is 2 or more and the
    system allows it, in forked processes; a chunk that fails there is made here.
    """
    count = len(job.ids)
    chunks = [range(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
    if processes < 2 or len(chunks) < 2 or not can_fork():
        yield from (_rescore_chunk(job, chunk) for chunk in chunks)
        return
    work: Work[range, _ChunkReport] = lambda _state: lambda chunk: _rescore_chunk(job, chunk)  # noqa: E731 - a def cannot bind the type arguments
    with ProcessPool(work, min(processes, len(chunks))) as forked:
        for chunk, part in forked.results(iter(chunks)):
            yield part if part is not None else _rescore_chunk(job, chunk)


def _rescore_chunk(job: _Job, chunk: range) -> _ChunkReport:
    """Rescore the questions at the given indexes in an event loop of their own, and return the report."""
    from karenina_engine.run.execution import run_blocking

    return run_blocking(lambda: _rescore_questions(job, job.ids[chunk.start : chunk.stop]))


async def _rescore_questions(job: _Job, ids: Sequence[str]) -> _ChunkReport:
    """Rescore the given questions, and return the scores of all their items, what changed, and the lines to write, in
    run order. Items with a missing reply become errors.
    """
    rows: list[tuple[int, _Scores, Change | None, str]] = []
    async with aclosing(replay_items(job.replay, ids)) as items:
        async for item in items:
            then, now = item.earlier, item.result
            _refuse_incomplete(now, item.replies)
            now.metadata.execution_time = then.metadata.execution_time  # the run's own time, like its calls and tokens
            scores = (now.item[1:3], now.question_id, _score(then), _score(now))
            rows.append((item.place, scores, find_change(then, now), _output_text(job, now) if job.writes else ""))
    rows.sort(key=lambda row: row[0])
    return _ChunkReport(
        [scores for _, scores, _, _ in rows],
        [change for _, _, change, _ in rows if change is not None],
        [line for _, _, _, line in rows if job.writes],
    )


def _score(result: VerificationResult | EarlierResult) -> _Score:
    """Return the parts of a result that the summary counts."""
    return result.outcome, result.template.verify_granular_result, result.metadata.template_id


def _output_text(job: _Job, result: VerificationResult) -> str:
    """Return the text of a result, from which its lines in the file are made."""
    return result.model_dump_json() if job.full else dump_result(result)


def _refuse_incomplete(result: VerificationResult, replies: ReplayReplies) -> None:
    """Turn a judged result into an error if one of its replies is missing. This changes `result` in place."""
    if not replies.missed or not result.outcome.judged:
        return
    meta = result.metadata
    for record in result.stages:
        if record.failed_calls and (meta.question_id, meta.replicate or 1, record.name) in replies.missed:
            result.outcome = Outcome.STAGE_ERROR
            result.template.verify_result = None
            meta.completed_without_errors = False
            meta.error = (
                f"{record.name}: the journal {replies.journal.path} contains no reply to the call of this stage, "
                "whose prompt has changed; allow the call with --ask (in Python: ask=True)"
            )
            return


def find_change(then: VerificationResult | EarlierResult, now: VerificationResult) -> Change | None:
    """Return the change between two results of the same item, or None if outcome, fields, traits and granular result
    are equal.
    """
    fields = _differences(_field_results(then), _field_results(now))
    traits = _differences(_traits(then), _traits(now))
    was, is_now = then.template.verify_granular_result, now.template.verify_granular_result
    granular = (was, is_now) if was != is_now else None
    if then.outcome is now.outcome and not fields and not traits and granular is None:
        return None
    return Change(now.item, then.outcome, now.outcome, fields, traits, granular, now.why())


def _field_results(result: VerificationResult | EarlierResult) -> dict[str, bool | None]:
    """Return whether each field and each regular expression passed, by name."""
    template = result.template
    return {**(template.field_results or {}), **(template.regex_validation_results or {})}


def _traits(result: VerificationResult | EarlierResult) -> dict[str, Any]:
    return dict(result.rubric.get_all_trait_scores()) if result.rubric is not None else {}


def _differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the entries in which two tables differ, as pairs of the old and the new value. A missing value is None."""
    if was == now:
        return {}
    names = dict.fromkeys([*was, *now])
    return {name: (was.get(name), now.get(name)) for name in names if was.get(name) != now.get(name)}
