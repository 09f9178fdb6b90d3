"""Replay the items of a run: each goes through its stages again with the replies of a journal, and without calls.

So the prompts of a finished run are computed again, too: a journal stores replies and not prompts.
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
from karenina_engine.journal.journal import REPLAY_CURE, Journal
from karenina_engine.journal.rows import raise_damaged
from karenina_engine.journal.view import JournalView
from karenina_engine.results.kept_files import FileStore
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
"""The questions that are replayed at a time."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A journal, and the benchmark, configuration and trust with which its items are replayed.

    `ask` allows calls whose prompt shows a changed truth. `files` stores the files of items; by default none is
    written. With `by_id`, the replies of a model are found by its id alone, for models that the journal names
    (`ModelLabel`).
    """

    request: RunRequest
    journal: Path
    ask: bool = False
    by_id: bool = False
    files: FileStore = field(default_factory=FileStore.that_writes_nothing)


@dataclass(frozen=True, slots=True)
class ReplayedItem:
    """An item of the journal, replayed: its place in the run, its earlier and its new result, and the replies used."""

    place: int
    earlier: EarlierResult
    result: VerificationResult
    replies: ReplayReplies


async def replay_items(
    replay: Replay, ids: Sequence[str], on_reply: Callable[[CallRecord], None] | None = None
) -> AsyncGenerator[ReplayedItem]:
    """Yield the items of these questions that have a result in the journal, in the order in which they finish.

    `on_reply` receives each call whose reply was found.
    """
    from karenina_engine.run.prepare import prepare_run

    with JournalView(replay.journal) as view:
        earlier = {item: _parse_earlier(replay.journal, item, text) for item, text in view.results_of(ids)}
    config = replay.request.config
    sync = config.section(EngineSettings).journal_sync
    if replay.by_id:
        _record_conversations(config, earlier)
    request = replace(replay.request, question_ids=ids)
    run = prepare_run(request, offline=not replay.ask, trust_checked=True, files=replay.files)
    with Journal.open(replay.journal, replaying=not replay.ask, sync=sync, limits=run.limits) as journal:
        replies = ReplayReplies(journal, journal.endpoint_digests() if replay.by_id else {}, on_reply)
        session = run.with_replies(replies, _NoStoredResults())
        with nullcontext() if replay.ask else journal.reading():
            async with aclosing(session.indexed_results()) as results:
                async for place, now, _ in results:
                    then = earlier.pop(now.item, None)
                    if then is not None:
                        yield ReplayedItem(place, then, now, replies)


class _EarlierTemplate(BaseModel):
    trace_messages: list[Any] | None = None
    verify_granular_result: Any = None
    field_results: dict[str, bool | None] | None = None
    regex_validation_results: dict[str, bool] | None = None


class _EarlierMetadata(BaseModel):
    execution_time: float = 0.0


class EarlierResult(BaseModel):
    """The compared parts of an earlier result, and its time. Parsing all of it takes three times as long."""

    outcome: Outcome
    metadata: _EarlierMetadata = _EarlierMetadata()
    template: _EarlierTemplate
    rubric: VerificationResultRubric | None = None


def _parse_earlier(journal: Path, item: ItemId, text: str) -> EarlierResult:
    try:
        return EarlierResult.model_validate_json(text)
    except ValueError:
        raise_damaged(journal, "results", f"the result of question {item[0]!r}")


@dataclass(slots=True)
class ReplayReplies:
    """A `ReplyStore` that reads replies from `journal` and, unless that replays, stores those to a changed truth.

    The prompt that shows the truth can be that of the answer itself (few-shot examples): the answers in `renewed`, by
    question and replicate, are judged again. `missed` holds the calls without a stored reply, as question, replicate
    and stage. `identities` are those that the models of the run had, if replies are found by the id of a model.
    `on_reply` receives each call whose reply was found.
    """

    journal: Journal
    identities: Mapping[tuple[str, str], Sequence[bytes]]
    on_reply: Callable[[CallRecord], None] | None = None
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
                str(error).removesuffix(REPLAY_CURE), category=error.category
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
            found = await self.journal.find(call)
        else:
            kept = self.journal.reply(call)
            found = kept.outcome if kept is not None and (kept.reusable or not self._may_ask(call)) else None
        if found is not None and self.on_reply is not None:
            self.on_reply(call)
        return found

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

    async def read_folders(self, task: AnswerTask) -> None:
        """Do nothing: no result is looked up."""

    def result(self, task: AnswerTask, judge: int) -> tuple[VerificationResult, str] | None:
        """Return None, so that every item is scored."""
        return None

    async def finish(
        self, task: AnswerTask, judge: int, result: VerificationResult
    ) -> tuple[VerificationResult, str | None]:
        """Return the result unchanged; it is not stored."""
        return result, None


def _record_conversations(config: VerificationConfig, earlier: Mapping[ItemId, EarlierResult]) -> None:
    """Record for each model of the journal which of these answers it generated as an agent."""
    labels = {model.id: model for model in config.core.answering_models if isinstance(model, ModelLabel)}
    for (question, answering, _judge, replicate), result in earlier.items():
        if answering in labels and result.template.trace_messages:
            labels[answering].conversations.add((question, replicate))


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """The content of a call: its messages, and the schema of a judge or the tools of an agent, as JSON values."""

    messages: tuple[Message, ...]
    request: Any


def find_prompts(
    journal: str | Path, benchmark: QuestionSource, *, trust: Trust | Literal["all"] | None = None
) -> dict[str, SentPrompt]:
    """Return the prompts of the calls in a journal by the key of the call (`results.table_columns.CALLS`).

    The items of the last run go through their stages again, with the models and free settings that the journal names,
    and without calls. A prompt is returned only if the digest of everything that was sent is equal to that in the
    journal, so it is exact. Prompts of questions, settings or plugins that have changed since are missing. Raises
    `JournalError`, `ConfigError` and `PlanError`.
    """
    from karenina_engine.check.restricted_values import require_trust
    from karenina_engine.run.blocking import run_blocking

    with JournalView(journal) as view:
        command, counts = view.command(), view.count_results()
    if command is None:
        return {}
    labels = JournalLabels.read(command)
    config = VerificationConfig(**labels.free_settings()[0], **labels.models())
    _, config = require_trust(benchmark, config, trust)
    replay = Replay(RunRequest(benchmark, config, trust=trust), Path(journal), by_id=True)
    ids = [id for id in benchmark.ids if id in counts]
    found: dict[str, SentPrompt] = {}

    def add(call: CallRecord) -> None:
        if isinstance(call, Call):
            found.setdefault(call.key.hex(), SentPrompt(tuple(call.messages), call.request))

    async def run() -> None:
        for start in range(0, len(ids), _CHUNK):
            async with aclosing(replay_items(replay, ids[start : start + _CHUNK], add)) as items:
                async for _ in items:
                    pass

    run_blocking(run)
    return found
