"""Servers that fail a quarter of all requests: each failure is reported correctly and retried once; no result is lost.

What fails, and how, follows from what is asked and how often it was asked before, so that each run is the same.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pytest
from adapter_formats import ClaudeTool, LangchainClaude, LangchainOpenAI, OpenAI

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResult
from karenina_core.models.ports import ErrorCategory
from karenina_engine.calls.retry import RetryPolicy
from karenina_testing.contracts import WireFormat
from karenina_testing.server import Log, Request, ScriptedServer, Side, faults

QUESTIONS: Final = 60
EACH: Final = 0.05
AT_ONCE: Final = 12
ASKED_TO_WAIT: Final = 0.2
SILENCES: Final = (1.0, 5.0, 25.0)
"""Seconds that a request may take: the first, with which only those time out that hang."""
FAULTS: Final = (
    faults.status(429, retry_after=ASKED_TO_WAIT),
    faults.status(500, retry_after=ASKED_TO_WAIT),
    faults.close,
    faults.hang,
    faults.cut_json,
    faults.cut,
)

CATEGORIES: Final[Mapping[str, ErrorCategory]] = {
    "429": ErrorCategory.RATE_LIMIT,
    "500": ErrorCategory.SERVER,
    "close": ErrorCategory.CONNECTION,
    "hang": ErrorCategory.TIMEOUT,
    "cut_json": ErrorCategory.SERVER,
    "cut": ErrorCategory.CONNECTION,
}
TOLD: Final[Mapping[str, str]] = {
    "429": "responded with HTTP 429: the server is scripted",
    "500": "responded with HTTP 500: the server is scripted",
    "close": "connection",
    "hang": r"within \d+ s",
    "cut_json": "sent no usable reply|the stream ended before the reply was complete",
    "cut": "connection|the stream ended before",
}


class Streamed(OpenAI):
    fields = {"extra": {"stream": True}}


ADAPTERS: Final[Mapping[str, Callable[[], WireFormat]]] = {
    "openai": OpenAI,
    "openai, streamed": Streamed,
    "langchain, openai": LangchainOpenAI,
    "langchain, anthropic": LangchainClaude,
    "claude_tool": ClaudeTool,
}


@dataclass(frozen=True)
class Seen:
    """A run, and what its servers sent."""

    results: dict[str, VerificationResult]
    answering: Log
    judging: Log

    @property
    def requests(self) -> int:
        """The number of all calls."""
        return len(self.answering) + len(self.judging)

    @property
    def retries(self) -> Counter[str]:
        """Requests that were made again, by category, as the results tell."""
        found: Counter[str] = Counter()
        for result in self.results.values():
            for record in result.stages:
                found.update(record.retries)
        return found

    @property
    def only_hanging_calls_timed_out(self) -> bool:
        """Whether the machine was fast enough for all other calls."""
        errors = [result.metadata.error or "" for result in self.results.values()]
        timed_out = sum(bool(re.search(TOLD["hang"], error)) for error in errors)
        hung = (self.answering.faults() + self.judging.faults())["hang"]
        return self.retries[ErrorCategory.TIMEOUT.value] + timed_out <= hung

    @property
    def waits(self) -> list[float]:
        """Seconds between a refusal with a time to wait and the next call."""
        items = [*self.answering.by_item().values(), *self.judging.by_item().values()]
        pairs = [pair for entries in items for pair in pairwise(entries)]
        return [again.at - refused.at for refused, again in pairs if refused.fault == "429"]


def failing(role: str, reply: Callable[[str], str]) -> ScriptedServer:
    """Return a server with faults that says `reply` to each call about an item."""
    shares = dict.fromkeys(FAULTS, EACH)
    side = Side(lambda request: reply(item_of(request)), shares=shares, seed=role)
    return ScriptedServer(side, item_of=item_of)


def item_of(request: Request) -> str:
    """Return the number of the item."""
    found = re.search(r"item #(\d+)", request.text)
    assert found is not None
    return found[1]


def run(adapter: str, policy: RetryPolicy) -> Seen:
    """Return a run in which only those calls time out that hang."""
    for silence in SILENCES:
        seen = run_with(adapter, policy, silence)
        if seen.only_hanging_calls_timed_out:
            break
    return seen


def run_with(adapter: str, policy: RetryPolicy, silence: float) -> Seen:
    """Return a run in which each item has a word of its own; the template of every third one expects another."""
    wire = ADAPTERS[adapter]()
    benchmark = Benchmark.create("faults")
    for number in range(1, QUESTIONS + 1):
        benchmark.add_question(
            f"What is the word of item #{number}?", answer_template=_template(number), question_id=str(number)
        )
    extra = {**wire.fields.get("extra", {}), "max_concurrency": AT_ONCE}
    answering = failing("answer", lambda number: f"The word of item #{number} is W{number}.")
    judging = failing("judge", lambda number: f'{{"word": "W{number}"}}')
    with answering, judging:
        config = VerificationConfig(
            answering_models=[wire.model(answering.url, extra=extra)],
            parsing_models=[wire.model(judging.url, extra=extra)],
            request_timeout=silence,
        )
        results = benchmark.run_verification(config, policy=policy)
        found = {result.metadata.question_id: result for result in results}
        assert len(found) == len(results) == QUESTIONS
        return Seen(found, answering.log, judging.log)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_failed_call_is_retried_once(adapter: str) -> None:
    patient = RetryPolicy(
        max_retries=dict.fromkeys(ErrorCategory, 8) | {ErrorCategory.PERMANENT: 0}, base=0.01, cap=0.02
    )
    seen = run(adapter, patient)

    assert {id: result.outcome for id, result in seen.results.items()} == {
        str(number): _outcome(number) for number in range(1, QUESTIONS + 1)
    }
    injected = seen.answering.faults() + seen.judging.faults()
    assert min(injected[fault.name] for fault in FAULTS) > 0, f"each fault is there: {injected}"
    expected: Counter[str] = Counter()
    for fault, times in injected.items():
        expected[_category(fault, adapter).value] += times
    assert seen.retries == expected
    assert seen.requests == 2 * QUESTIONS + injected.total()
    assert sum(result.template.usage_metadata["total"]["calls"] for result in seen.results.values()) == 2 * QUESTIONS
    assert len(seen.waits) == injected["429"]
    assert min(seen.waits) >= ASKED_TO_WAIT - 0.01  # timers of event loops are exact to milliseconds


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_without_retries_each_failure_is_an_item_error(adapter: str) -> None:
    seen = run(adapter, RetryPolicy(max_retries={}))

    answers, judgments = first_faults(seen.answering), first_faults(seen.judging)
    failed = {**dict.fromkeys(judgments, Outcome.PARSE_ERROR), **dict.fromkeys(answers, Outcome.MODEL_ERROR)}
    assert {id: result.outcome for id, result in seen.results.items()} == {
        str(number): failed.get(str(number), _outcome(number)) for number in range(1, QUESTIONS + 1)
    }
    told = defaultdict(list)
    for number, fault in {**judgments, **answers}.items():
        error = seen.results[number].metadata.error or ""
        if not re.search(TOLD[fault], error):
            told[fault].append(error)
    assert not told
    assert seen.retries == Counter()
    assert seen.requests == 2 * QUESTIONS - len(answers)


def first_faults(log: Log) -> dict[str, str]:
    """Return the fault of each item whose first call met one."""
    first = {item: entries[0].fault for item, entries in log.by_item().items()}
    return {item: fault for item, fault in first.items() if fault is not None}


def _outcome(number: int) -> Outcome:
    return Outcome.WRONG if number % 3 == 0 else Outcome.CORRECT


def _category(fault: str, adapter: str) -> ErrorCategory:
    return ErrorCategory.CONNECTION if (fault, adapter) == ("cut_json", "openai, streamed") else CATEGORIES[fault]


def _template(number: int) -> str:
    truth = "another" if number % 3 == 0 else f"W{number}"
    return (
        "class Answer(BaseAnswer):\n"
        f'    word: str = VerifiedField(description="The word", ground_truth="{truth}", verify_with=ExactMatch())\n'
    )
