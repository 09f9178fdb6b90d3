"""Score a run again from its journal, with other truths, tolerances, weights or traits, and without calls.

Judges never see the truth, so their replies remain valid when it changes. Every item of the last run goes through its
stages again with the replies from the journal, and the new result is compared with the earlier one. Nothing is written
to the journal, except the replies of calls that `ask` allows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel

from karenina_core.config import plugins_of
from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import VerificationResultRubric
from karenina_core.errors import ConfigError
from karenina_core.models.ports import ErrorCategory, NoRecordedReply, PortError
from karenina_engine.calls.journal_labels import ModelLabel
from karenina_engine.journal.journal import Journal
from karenina_engine.journal.request import RunRequest
from karenina_engine.journal.rows import raise_damaged
from karenina_engine.journal.view import JournalView
from karenina_engine.results.aggregate import OutcomeTally, Summary
from karenina_engine.results.header import header_line
from karenina_engine.results.result_file import open_line_writer, prepare_output
from karenina_engine.scheduling.plugin_checks import loaded_distributions
from karenina_engine.scheduling.process_pool import ProcessPool, Work, can_fork
from karenina_engine.scheduling.settings import EngineSettings

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.planning.plan import Plan
    from karenina_engine.calls.call import CallOutcome, CallRecord
    from karenina_engine.journal.question_source import QuestionSource
    from karenina_engine.journal.tasks import AnswerTask

ItemId = tuple[str, str, str, int]
_CHUNK: Final = 200
"""The questions that a process takes at a time."""

logger = logging.getLogger("karenina")


@dataclass(frozen=True, slots=True)
class Change:
    """An item whose score changed. `item` is its question, answering model, judge and replicate.

    `fields` and `traits` are those that changed, each with the earlier and the new value (None: no value); `granular`
    has both granular results if they differ. `why` explains the new outcome.
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
        """Whether the verdict changed. An item that cannot be judged has none."""
        return self.before.judged and self.after.judged and (self.before is CORRECT) is not (self.after is CORRECT)

    @property
    def missing(self) -> bool:
        """Whether the item was judged earlier and cannot be now, usually because a reply is not in the journal."""
        return self.before.judged and not self.after.judged


CORRECT: Final = Outcome.CORRECT


@dataclass(slots=True)
class RescoreReport:
    """The result of rescoring: both summaries, over the same items, and the changes, in the order of the run.

    `gone` items were left out because the benchmark lacks their question; `new` questions have no result yet.
    """

    before: Summary
    after: Summary
    changes: list[Change]
    gone: int
    new: int
    seconds: float

    @property
    def flips(self) -> list[Change]:
        """The changes of verdicts."""
        return [change for change in self.changes if change.flipped]

    @property
    def missing(self) -> list[Change]:
        """The items that could not be judged again."""
        return [change for change in self.changes if change.missing]


@dataclass(frozen=True, slots=True)
class _Job:
    request: RunRequest
    journal: Path
    ask: bool
    writes: bool
    ids: Sequence[str]
    by_id: bool


_Scores = tuple[str, Outcome, Any, Outcome, Any]


@dataclass(slots=True)
class _ChunkReport:
    """The rescored items of some questions: outcomes and granular results before and after, and the changes.

    `lines` are the new results, if they are to be written.
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
    on_items: Callable[[int], None] = lambda _count: None,
) -> RescoreReport:
    """Score the items of the last run in `journal` again, under `benchmark` and `config`, without calling a model.

    An item ends in an error that names the call if the journal has no reply to it, or if its prompt would show a
    changed truth to a model (`PromptTask.shows_truth`). `ask` allows the latter calls, and their replies are stored in
    the journal; an answer that is generated again, because a few-shot example changed, is judged again too. With
    `output`, the new results are written to that JSONL file, in the order of the run. The work is divided among
    `processes` if no call is made, the system can fork, and this process has no threads. With `by_id`, the replies of a
    model are found by its id alone, for models that the journal names (`ModelLabel`). Raises `JournalError`,
    `ConfigError`, `PlanError` and `CheckpointError`.
    """
    from karenina_engine.scheduling.restricted_values import require_trust

    began = time.monotonic()
    require_trust(benchmark, config, trust)
    with JournalView(journal) as view:
        asked = view.count_results()
    if not asked:
        raise ConfigError([f"the journal {journal} holds no result of its last run: there is nothing to rescore"])
    wanted = [id for id in (benchmark.ids if question_ids is None else question_ids) if id in benchmark]
    ids = [id for id in wanted if id in asked]
    if not ids:
        raise ConfigError([f"no question of the benchmark has a result in {journal}: pass the benchmark of that run"])
    before, after = OutcomeTally(), OutcomeTally()
    changes: list[Change] = []
    with ExitStack() as stack:
        add = None
        if output is not None:
            moved = prepare_output(Path(output))
            if moved is not None:
                logger.warning("%s held earlier results: they are kept in %s", output, moved)
            add = stack.enter_context(open_line_writer(Path(output)))
            add([header_line(loaded_distributions(plugins_of(config)))])
        job = _Job(RunRequest(benchmark, config, trust=trust), Path(journal), ask, add is not None, ids, by_id)
        for part in _reports(job, 1 if ask else processes):
            for question, was, was_granular, now, now_granular in part.scores:
                before.add(was, question, was_granular)
                after.add(now, question, now_granular)
            changes += part.changes
            if add is not None:
                add(part.lines)
            on_items(len(part.scores))
    kept = set(ids)
    gone = sum(count for id, count in asked.items() if id not in kept) if question_ids is None else 0
    new = len(wanted) - len(ids)
    return RescoreReport(before.summary(), after.summary(), changes, gone, new, time.monotonic() - began)


def _reports(job: _Job, processes: int) -> Iterator[_ChunkReport]:
    """Yield the reports of the chunks in their order, computed in this process or by a pool."""
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
    from karenina_engine.scheduling.blocking import run_blocking

    return run_blocking(lambda: _rescore_questions(job, job.ids[chunk.start : chunk.stop]))


async def _rescore_questions(job: _Job, ids: Sequence[str]) -> _ChunkReport:
    from karenina_engine.scheduling.executor_selection import select_executor
    from karenina_engine.scheduling.prepare import prepare_run
    from karenina_engine.scheduling.session import RunSession

    with JournalView(job.journal) as view:
        earlier = {item: _parse_earlier(job.journal, item, text) for item, text in view.results_of(ids)}
    found: list[tuple[int, _Scores, Change | None, str]] = []
    sync = job.request.config.section(EngineSettings).journal_sync
    with Journal.open(job.journal, replaying=not job.ask, sync=sync) as journal:
        replies = _RescoreReplies(journal, journal.endpoint_digests() if job.by_id else {})
        if job.by_id:
            _record_conversations(job.request.config, earlier)
        prepared = prepare_run(replace(job.request, question_ids=ids), offline=not job.ask, trust_checked=True)
        run = RunSession(prepared, executor=select_executor(prepared), replies=replies, results=_NoStoredResults())
        journal.answering = run.runner.calls.answering
        with nullcontext() if job.ask else journal.reading():
            async with aclosing(run.indexed_results()) as results:
                async for place, now, _ in results:
                    then = earlier.pop(now.item, None)
                    if then is not None:
                        _refuse_incomplete(now, replies)
                        granular = then.template.verify_granular_result, now.template.verify_granular_result
                        scores = (now.question_id, then.outcome, granular[0], now.outcome, granular[1])
                        line = now.model_dump_json() if job.writes else ""
                        found.append((place, scores, _change(then, now), line))
    found.sort(key=lambda one: one[0])
    return _ChunkReport(
        [scores for _, scores, _, _ in found],
        [change for _, _, change, _ in found if change is not None],
        [line for _, _, _, line in found if job.writes],
    )


def _record_conversations(config: VerificationConfig, earlier: Mapping[ItemId, _Earlier]) -> None:
    """Record for each model of the journal which of these answers it generated as an agent."""
    labels = {model.id: model for model in config.core.answering_models if isinstance(model, ModelLabel)}
    for (question, answering, _judge, replicate), result in earlier.items():
        if answering in labels and result.template.trace_messages:
            labels[answering].conversations.add((question, replicate))


class _EarlierTemplate(BaseModel):
    trace_messages: list[Any] | None = None
    verify_granular_result: Any = None
    field_results: dict[str, bool] | None = None
    regex_validation_results: dict[str, bool] | None = None


class _Earlier(BaseModel):
    """The compared parts of an earlier result. Parsing all of it takes three times as long."""

    outcome: Outcome
    template: _EarlierTemplate
    rubric: VerificationResultRubric | None = None


def _parse_earlier(journal: Path, item: ItemId, text: str) -> _Earlier:
    try:
        return _Earlier.model_validate_json(text)
    except ValueError:
        raise_damaged(journal, "results", f"the result of question {item[0]!r}")


@dataclass(slots=True)
class _RescoreReplies:
    """A `ReplyStore` that reads replies from `journal` and, unless that replays, stores those to a changed truth.

    The prompt that shows the truth can be that of the answer itself (few-shot examples): the answers in `renewed`, by
    question and replicate, are judged again. `missed` holds the calls without a stored reply, as question, replicate
    and stage. `identities` are those that the models of the run had, if replies are found by the id of a model.
    """

    journal: Journal
    identities: Mapping[tuple[str, str], Sequence[bytes]]
    missed: set[tuple[str, int, str]] = field(default_factory=set)
    renewed: set[tuple[str, int]] = field(default_factory=set)

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """Return the stored reply of the call. Raises `PortError` if there is none and the call may not be made."""
        info = call.info
        try:
            kept = await self._find_any(call)
        except PortError as error:
            self.missed.add((info.question_id, info.replicate, info.stage))
            raise PortError(
                str(error), category=error.category
            ) from None  # without a cause: a stage may go on without the reply, and is checked
        if kept is None and not self._may_ask(call):
            self.missed.add((info.question_id, info.replicate, info.stage))
            raise PortError(
                f"the journal {self.journal.path} holds no reply of {call.endpoint.model.id!r} to this call of stage "
                f"{info.stage}, and rescoring may send only prompts that show a changed truth",
                category=ErrorCategory.PERMANENT,
            )
        if kept is None and info.shared:
            self.renewed.add((info.question_id, info.replicate))
        return kept

    async def _find_any(self, call: CallRecord) -> CallOutcome | None:
        *others, last = self._with_identities(call)
        for one in others:
            with suppress(NoRecordedReply):
                kept = await self._from_journal(one)
                if kept is not None:
                    return kept
        return await self._from_journal(last)

    async def _from_journal(self, call: CallRecord) -> CallOutcome | None:
        """Return the stored outcome of the call, including an error if the call may not be made again."""
        if self.journal.replaying:
            return await self.journal.find(call)
        kept = self.journal.reply(call)
        return kept.outcome if kept is not None and (kept.reusable or not self._may_ask(call)) else None

    def _with_identities(self, call: CallRecord) -> list[CallRecord]:
        """Return the call with each identity that the model of this id had in the run."""
        digests = self.identities.get((call.endpoint.port, call.endpoint.model.id), ())
        return [call.with_endpoint_digest(digest) for digest in digests] or [call]

    async def store(self, call: CallRecord, made: CallOutcome) -> None:
        """Store the outcome of a call under the latest identity of the run's model."""
        await self.journal.store(self._with_identities(call)[-1], made)

    def leave(self, call: CallRecord) -> None:
        """Do nothing: calls that were not made are not recorded."""

    def _may_ask(self, call: CallRecord) -> bool:
        info = call.info
        renewed = (info.question_id, info.replicate) in self.renewed
        return (info.shows_truth or renewed) and not isinstance(call.endpoint.model, ModelLabel)


@dataclass(slots=True)
class _NoStoredResults:
    """A `ResultStore` without stored results, which stores none."""

    kept: int = 0
    again: int = 0

    def count(self, kept: int, again: int) -> None:
        """Do nothing: no result comes from the journal."""

    async def read_folders(self, question: Question, plan: Plan) -> None:
        """Do nothing: no result is looked up."""

    def result(self, task: AnswerTask, judge: int, plan: Plan) -> tuple[VerificationResult, str] | None:
        """Return None, so that every item is scored."""
        return None

    async def finish(
        self, task: AnswerTask, judge: int, plan: Plan, result: VerificationResult
    ) -> tuple[VerificationResult, str | None]:
        """Return the result unchanged; it is not stored."""
        return result, None


def _refuse_incomplete(result: VerificationResult, replies: _RescoreReplies) -> None:
    """Turn a result into an error if a stage went on without a reply that the journal lacks."""
    if not result.outcome.judged:
        return
    meta = result.metadata
    for record in result.stages:
        if record.failed_calls and (meta.question_id, meta.replicate or 1, record.name) in replies.missed:
            result.outcome = Outcome.STAGE_ERROR
            result.template.verify_result = None
            meta.completed_without_errors = False
            meta.error = (
                f"{record.name}: the journal {replies.journal.path} holds no reply to its call, whose prompt "
                "changed; allow the call with --ask (in Python ask=True)"
            )
            return


def _change(then: _Earlier, now: VerificationResult) -> Change | None:
    """Return what changed, or None."""
    fields = _differences(_field_results(then), _field_results(now))
    traits = _differences(_traits(then), _traits(now))
    was, is_now = then.template.verify_granular_result, now.template.verify_granular_result
    granular = (was, is_now) if was != is_now else None
    if then.outcome is now.outcome and not fields and not traits and granular is None:
        return None
    return Change(now.item, then.outcome, now.outcome, fields, traits, granular, now.why())


def _field_results(result: VerificationResult | _Earlier) -> dict[str, bool]:
    template = result.template
    return {**(template.field_results or {}), **(template.regex_validation_results or {})}


def _traits(result: VerificationResult | _Earlier) -> dict[str, Any]:
    return dict(result.rubric.get_all_trait_scores()) if result.rubric is not None else {}


def _differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*was, *now])
    return {name: (was.get(name), now.get(name)) for name in names if was.get(name) != now.get(name)}
