"""The prompts of a finished run, computed again from its journal, which stores replies and not prompts."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from karenina_core.config import VerificationConfig
from karenina_engine.calls.call import Call
from karenina_engine.calls.journal_labels import JournalLabels
from karenina_engine.journal.view import JournalView
from karenina_engine.offline.replay import Replay, replay_items
from karenina_engine.run.request import RunRequest

if TYPE_CHECKING:
    from karenina_core.data.trust import Trust
    from karenina_core.models.ports import Message
    from karenina_engine.calls.call import CallRecord
    from karenina_engine.question_source import QuestionSource

_CHUNK: Final = 200
"""The questions that are replayed at a time."""


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
    require_trust(benchmark, config, trust)
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
