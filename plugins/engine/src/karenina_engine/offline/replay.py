"""Replaying a run: its items go through their stages again, with stored replies and without calls.

Journals store replies but not prompts. A replay is therefore the only way to see the prompts of a finished run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel

from karenina_core.config import VerificationConfig
from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import VerificationResultRubric
from karenina_core.models.ports import ErrorCategory, NoRecordedReply, PortError
from karenina_engine.calls.call import Call
from karenina_engine.calls.journal_labels import JournalLabels, ModelLabel
from karenina_engine.check.questions import files_of
from karenina_engine.journal.journal import REPLAY_CURE, Journal
from karenina_engine.journal.rows import raise_damaged
from karenina_engine.journal.view import JournalView
from karenina_engine.results.kept_files import FileStore
from karenina_engine.run.executor import AsyncioExecutor
from karenina_engine.run.request import RunRequest
from karenina_engine.settings import EngineSettings

if TYPE_CHECKING:
    from karenina_core.data.result import ItemId, VerificationResult
    from karenina_core.data.trust import Trust
    from karenina_core.models.ports import Message
    from karenina_engine.calls.call import CallOutcome, CallRecord
    from karenina_engine.question_source import QuestionSource
    from karenina_engine.run.matrix import AnswerTask

_CHUNK: Final = 200
"""The number of questions that are replayed at a time."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A journal to replay, with the benchmark, configuration and trust to use.

    If `ask` is set, calls are made if their prompts show changed ground truth. `files` is the store for the files of
    items. By default, it does not write any files. If `by_id` is set, replies are found by the model's id alone, as a
    `ModelLabel` requires.
    """

    request: RunRequest
    journal: Path
    ask: bool = False
    by_id: bool = False
    files: FileStore = field(default_factory=FileStore.that_writes_nothing)


@dataclass(frozen=True, slots=True)
class ReplayedItem:
    """A replayed item: its index in the run, its earlier and new results, and the replies that were used."""

    place: int
    earlier: EarlierResult
    result: VerificationResult
    replies: ReplayReplies


async def replay_items(
    replay: Replay, ids: Sequence[str], on_reply: Callable[[CallRecord], None] | None = None
) -> AsyncGenerator[ReplayedItem]:
    """Replay the items of the given questions from the journal, and yield them in the order in which they finish,
    without those that have no result there. `on_reply` is called with each call whose reply was found. Raises
    `JournalError` if the journal cannot be read, and `ConfigError` or `PlanError` if the run cannot be prepared.
    """
    from karenina_engine.run.prepare import prepare_run

    with JournalView(replay.journal) as view:
        earlier = {item: _parse_earlier(replay.journal, item, text) for item, text in view.results_of(ids)}
    config = replay.request.config
    sync = config.section(EngineSettings).journal_sync
    if replay.by_id:
        _record_conversations(config, earlier)
    request = replace(replay.request, question_ids=ids)
    attached = files_of(request.benchmark, replay.journal)
    run = prepare_run(request, offline=not replay.ask, trust_checked=True, files=replay.files, attached=attached)
    with Journal.open(replay.journal, replaying=not replay.ask, sync=sync, limits=run.limits) as journal:
        replies = ReplayReplies(journal, journal.endpoint_digests() if replay.by_id else {}, on_reply)
        # In this process, because the workers of other executors do not send the messages by which replies are found.
        session = run.with_replies(replies, _NoStoredResults(), AsyncioExecutor())
        with nullcontext() if replay.ask else journal.reading():
            async with aclosing(session.indexed_results()) as results:
                async for place, now, _ in results:
                    then = earlier.pop(now.item, None)
                    if then is not None:
                        yield ReplayedItem(place, then, now, replies)


class _EarlierTemplate(BaseModel):
    agent_metrics: dict[str, Any] | None = None
    verify_granular_result: Any = None
    field_results: dict[str, bool | None] | None = None
    regex_validation_results: dict[str, bool] | None = None


class _EarlierMetadata(BaseModel):
    template_id: str
    execution_time: float = 0.0


class EarlierResult(BaseModel):
    """The parts of an earlier result that are compared, and the result's time.

    Parsing the complete result would take three times as long.
    """

    outcome: Outcome
    metadata: _EarlierMetadata
    template: _EarlierTemplate = _EarlierTemplate()
    rubric: VerificationResultRubric | None = None


def _parse_earlier(journal: Path, item: ItemId, text: str) -> EarlierResult:
    """Parse the parts of an earlier result that are compared. Raises `JournalDamaged` if they are invalid."""
    try:
        return EarlierResult.model_validate_json(text)
    except ValueError:
        raise_damaged(journal, "results", f"the result of question {item[0]!r}")


@dataclass(slots=True)
class ReplayReplies:
    """A reply store that reads from `journal`. Unless the journal is replaying, new replies are stored there too.

    New calls are only made if their prompts show changed ground truth. If such a prompt asks for the answer itself, as
    with few-shot examples, the new answer is listed in `renewed` (by question and replicate) and judged again. `missed`
    lists the calls without a stored reply, by question, replicate and stage. `identities` contains the endpoint digests
    of the run's models, for finding replies by model id. `on_reply` is called with each call whose reply was found.
    """

    journal: Journal
    identities: Mapping[tuple[str, str], Sequence[bytes]]
    on_reply: Callable[[CallRecord], None] | None = None
    missed: set[tuple[str, int, str]] = field(default_factory=set)
    renewed: set[tuple[str, int]] = field(default_factory=set)

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """Return the stored outcome of the call, or None if the call has to be made. If it must not be made either,
        raises `PortError` and adds it to `missed`. An answer that has to be generated again is added to `renewed`.
        """
        info = call.info
        try:
            outcome = await (self._find_any(call) if self.identities else self._from_journal(call))
        except PortError as error:
            self.missed.add((info.question_id, info.replicate, info.stage))
            raise PortError(
                str(error).removesuffix(REPLAY_CURE), category=error.category
            ) from None  # without a cause: a stage may continue without the reply, which is checked later
        if outcome is None and not self._may_ask(call):
            self.missed.add((info.question_id, info.replicate, info.stage))
            raise PortError(
                f"the journal {self.journal.path} contains no reply from {call.endpoint.model.id!r} to this call by "
                f"stage {info.stage}, and rescoring may send only prompts that show a changed ground truth",
                category=ErrorCategory.PERMANENT,
            )
        if outcome is None and info.shared:
            self.renewed.add((info.question_id, info.replicate))
        return outcome

    async def _find_any(self, call: CallRecord) -> CallOutcome | None:
        """Return the stored outcome of the call under the first of its model's identities that has one, or None. If
        there is none and the journal is replaying, raises `NoRecordedReply`.
        """
        *others, last = self._with_identities(call)
        for other in others:
            with suppress(NoRecordedReply):
                outcome = await self._from_journal(other)
                if outcome is not None:
                    return replace(outcome, key=other.key)
        outcome = await self._from_journal(last)
        return None if outcome is None else replace(outcome, key=last.key)

    async def _from_journal(self, call: CallRecord) -> CallOutcome | None:
        """Return the stored outcome of the call and pass the call to `on_reply`, or return None if there is none. The
        outcome may be an error if the call must not be made again. If there is none and the journal is replaying,
        raises `NoRecordedReply`.
        """
        if self.journal.replaying:
            outcome = await self.journal.find(call)
        else:
            stored = self.journal.reply(call)
            outcome = stored.outcome if stored is not None and (stored.reusable or not self._may_ask(call)) else None
        if outcome is not None and self.on_reply is not None:
            self.on_reply(call)
        return outcome

    def _with_identities(self, call: CallRecord) -> list[CallRecord]:
        """Return a copy of the call for each identity that its model had in the run. If no identities are stored,
        returns just the call itself.
        """
        digests = self.identities.get((call.endpoint.port, call.endpoint.model.id), ())
        return [call.with_endpoint_digest(digest) for digest in digests] or [call]

    async def store(self, call: CallRecord, made: CallOutcome) -> None:
        """Store the outcome of a call under the model's latest identity."""
        identified = self._with_identities(call)[-1]
        await self.journal.store(identified, made)
        made.key = identified.key

    def leave(self, call: CallRecord) -> None:
        """Do nothing. Calls that were not made are not recorded."""

    def _may_ask(self, call: CallRecord) -> bool:
        """Return whether the call shows changed ground truth or is about a renewed answer. For models that are only
        named in the journal, returns False, because they are never called.
        """
        info = call.info
        renewed = (info.question_id, info.replicate) in self.renewed
        return (info.shows_truth or renewed) and not isinstance(call.endpoint.model, ModelLabel)


@dataclass(slots=True)
class _NoStoredResults:
    """An empty result store."""

    kept: int = 0
    again: int = 0

    def count(self, kept: int, again: int) -> None:
        """Do nothing, because no results come from the journal."""

    async def read_folders(self, task: AnswerTask) -> None:
        """Do nothing, because no results are looked up."""

    def result(self, task: AnswerTask, judge: int) -> tuple[VerificationResult, str] | None:
        """Return None, because every item is scored again."""
        return None

    async def finish(
        self, task: AnswerTask, judge: int, result: VerificationResult
    ) -> tuple[VerificationResult, str | None]:
        """Return the result unchanged, without storing it."""
        return result, None


def _record_conversations(config: VerificationConfig, earlier: Mapping[ItemId, EarlierResult]) -> None:
    """Add the question and replicate of each answer in `earlier` that a `ModelLabel` of the configuration gave as an
    agent to the label's `conversations`.
    """
    labels = {model.id: model for model in config.core.answering_models if isinstance(model, ModelLabel)}
    for (question, answering, _judge, replicate), result in earlier.items():
        if answering in labels and result.template.agent_metrics is not None:
            labels[answering].conversations.add((question, replicate))


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """A call's messages and request.

    The request is a judge's schema or an agent's options, as JSON-compatible data.
    """

    messages: tuple[Message, ...]
    request: Any


def find_prompts(
    journal: str | Path, benchmark: QuestionSource, *, trust: Trust | Literal["all"] | None = None
) -> dict[str, SentPrompt]:
    """Return the prompts of the calls in a journal by call key, by replaying its last run. Prompts that have changed
    since are left out. If the journal has no runs, the result is empty.

    If a question, a setting or a plugin has changed, the prompts that depend on it are missing. The replay uses the
    models in the journal, and those of its settings that files may set. Every prompt is exact, because it must match
    the digest in the journal. For call keys, see `results.table_columns.CALLS`. `trust` is the same as for a
    `RunRequest`.

    Raises `JournalError` if the journal cannot be read, `ConfigError` if its settings or models are invalid or the
    benchmark needs the user's trust, and `PlanError` if a question has no valid plan.
    """
    from karenina_engine.check.restricted_values import require_trust
    from karenina_engine.run.execution import run_blocking

    with JournalView(journal) as view:
        command, counts = view.command(), view.count_results()
    if command is None:
        return {}
    labels = JournalLabels.read(command)
    config = VerificationConfig(**labels.free_settings()[0], **labels.models())
    _, config = require_trust(benchmark, config, trust)
    replay = Replay(RunRequest(benchmark, config, trust=trust), Path(journal), by_id=True)
    ids = [id for id in benchmark.ids if id in counts]
    prompts: dict[str, SentPrompt] = {}

    def add(call: CallRecord) -> None:
        """Store the prompt of a call, unless there is one already. Calls made by other processes have no prompt."""
        if isinstance(call, Call):
            prompts.setdefault(call.key.hex(), SentPrompt(tuple(call.messages), call.request))

    async def run() -> None:
        """Replay the items of the run, a few questions at a time, which passes each call to `add`."""
        for start in range(0, len(ids), _CHUNK):
            async with aclosing(replay_items(replay, ids[start : start + _CHUNK], add)) as items:
                async for _ in items:
                    pass

    run_blocking(run)
    return prompts
