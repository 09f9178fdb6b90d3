"""Servers that fail a quarter of all requests: each failure is reported correctly and retried once; no result is lost.

What fails, and how, follows from what is asked and how often it was asked before, so that each run is the same.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import pytest

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResult
from karenina_core.models.ports import ErrorCategory, FinishReason, ToolCall
from karenina_engine.calls.retry import RetryPolicy
from karenina_testing.contracts import ChatCompletions, MessagesAPI, Reply, Request, Wire

Fault = Literal["429", "500", "close", "hang", "cut"]

QUESTIONS: Final = 60
FAULTS: Final[tuple[Fault, ...]] = ("429", "500", "close", "hang", "cut")
EACH: Final = 0.05
AT_ONCE: Final = 12
ASKED_TO_WAIT: Final = 0.2
SILENCE: Final = 3.0
"""Seconds that a request may take: far more than any needs here, so that only those time out that hang."""

SPOILED: Final[Mapping[Fault, faults.Fault]] = {
    "close": faults.close,
    "hang": faults.hang,
    "cut": faults.cut_json,
}
CATEGORIES: Final[Mapping[Fault, ErrorCategory]] = {
    "429": ErrorCategory.RATE_LIMIT,
    "500": ErrorCategory.SERVER,
    "close": ErrorCategory.CONNECTION,
    "hang": ErrorCategory.TIMEOUT,
    "cut": ErrorCategory.SERVER,
}
TOLD: Final[Mapping[Fault, str]] = {
    "429": "answered HTTP 429: scripted",
    "500": "answered HTTP 500: scripted",
    "close": "connection",
    "hang": f"within {SILENCE:g} s",
    "cut": "sent no usable reply|the stream ended before the reply did",
}


class OpenAI(ChatCompletions):
    entry_point = "karenina_openai:plugin"
    interface = "openai"


class Streamed(OpenAI):
    """Each reply in pieces."""

    fields = {"extra": {"stream": True}}

    def saying(self, text: str = "", *calls: ToolCall, finish_reason: FinishReason | None = None) -> Reply:
        return spoken(STREAM, Say(text, calls, usage=self.usage))

    def filling(self, text: str) -> Callable[[Request], Reply]:
        return lambda request: spoken(request, Say(text, usage=self.usage))


class LangchainOpenAI(ChatCompletions):
    entry_point = "karenina_langchain:plugin"
    interface = "langchain"
    fields = {"model_provider": "openai"}


class LangchainClaude(MessagesAPI):
    entry_point = "karenina_langchain:plugin"
    interface = "langchain"
    fields = {"model_provider": "anthropic"}


class ClaudeTool(MessagesAPI):
    entry_point = "karenina_claude_tool:plugin"
    interface = "claude_tool"


ADAPTERS: Final[Mapping[str, Callable[[], Wire]]] = {
    "openai": OpenAI,
    "openai, streamed": Streamed,
    "langchain, openai": LangchainOpenAI,
    "langchain, anthropic": LangchainClaude,
    "claude_tool": ClaudeTool,
}


@dataclass(eq=False)
class Faulty:
    """A server's script: the right reply to a request about an item, or the fault that is its turn."""

    role: str
    wire: Wire
    right: Callable[[str], Callable[[Request], Reply]]
    faults: Counter[Fault] = field(default_factory=Counter)
    first: dict[str, Fault] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    _asked: Counter[str] = field(default_factory=Counter)
    _refused: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: Request) -> Reply:
        item = re.search(r"item #(\d+)", request.text)
        assert item is not None
        number = item.group(1)
        with self._lock:
            fault = self._fault(number)
            if number in self._refused:
                self.waits.append(time.monotonic() - self._refused.pop(number))
            if fault == "429":
                self._refused[number] = time.monotonic()
        good = self.right(number)(request)
        if fault in ("429", "500"):
            return self.wire.failing(int(fault), "scripted", Retry_After=str(ASKED_TO_WAIT))
        return good if fault is None else SPOILED[fault](request, good)

    def _fault(self, number: str) -> Fault | None:
        self._asked[number] += 1
        drawn = random.Random(f"{self.role} {number} {self._asked[number]}").random()
        place = int(drawn / EACH)
        if place >= len(FAULTS):
            return None
        fault = FAULTS[place]
        self.faults[fault] += 1
        if self._asked[number] == 1:
            self.first[number] = fault
        return fault


@dataclass(frozen=True)
class Seen:
    """A run, and what its servers saw."""

    results: dict[str, VerificationResult]
    answering: Faulty
    judging: Faulty
    requests: int

    @property
    def retries(self) -> Counter[str]:
        """Requests that were made again, by category, as the results tell."""
        found: Counter[str] = Counter()
        for result in self.results.values():
            for record in result.stages:
                found.update(record.retries)
        return found


def run(adapter: str, policy: RetryPolicy) -> Seen:
    """Return each item has a word of its own; the template of every third one expects another."""
    wire = ADAPTERS[adapter]()
    answering = Faulty(
        "answer", wire, lambda number: lambda _: wire.saying(f"The word of item #{number} is W{number}.")
    )
    judging = Faulty("judge", wire, lambda number: wire.filling(f'{{"word": "W{number}"}}'))
    benchmark = Benchmark.create("faults")
    for number in range(1, QUESTIONS + 1):
        benchmark.add_question(
            f"What is the word of item #{number}?", answer_template=_template(number), question_id=str(number)
        )
    extra = {**wire.fields.get("extra", {}), "max_concurrency": AT_ONCE}
    with wire.server(answering) as one, wire.server(judging) as other:
        config = VerificationConfig(
            answering_models=[wire.model(one.url, extra=extra)],
            parsing_models=[wire.model(other.url, extra=extra)],
            request_timeout=SILENCE,
        )
        results = benchmark.run_verification(config, policy=policy)
        found = {result.metadata.question_id: result for result in results}
        assert len(found) == len(results) == QUESTIONS
        return Seen(found, answering, judging, len(one.requests) + len(other.requests))


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_failed_call_is_retried_once(adapter: str) -> None:
    patient = RetryPolicy(
        max_retries=dict.fromkeys(ErrorCategory, 8) | {ErrorCategory.PERMANENT: 0}, base=0.01, cap=0.02
    )
    seen = run(adapter, patient)

    assert {id: result.outcome for id, result in seen.results.items()} == {
        str(number): _outcome(number) for number in range(1, QUESTIONS + 1)
    }
    injected = seen.answering.faults + seen.judging.faults
    assert min(injected[fault] for fault in FAULTS) > 0, f"each fault is there: {injected}"
    expected: Counter[str] = Counter()
    for fault, times in injected.items():
        expected[_category(fault, adapter).value] += times
    assert seen.retries == expected
    assert seen.requests == 2 * QUESTIONS + injected.total()
    assert sum(result.template.usage_metadata["total"]["calls"] for result in seen.results.values()) == 2 * QUESTIONS
    waits = seen.answering.waits + seen.judging.waits
    assert len(waits) == injected["429"]
    assert min(waits) >= ASKED_TO_WAIT


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_without_retries_each_failure_is_an_item_error(adapter: str) -> None:
    seen = run(adapter, RetryPolicy(max_retries={}))

    answers, judgments = seen.answering.first, seen.judging.first
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


def _outcome(number: int) -> Outcome:
    return Outcome.WRONG if number % 3 == 0 else Outcome.CORRECT


def _category(fault: Fault, adapter: str) -> ErrorCategory:
    return ErrorCategory.CONNECTION if (fault, adapter) == ("cut", "openai, streamed") else CATEGORIES[fault]


def _template(number: int) -> str:
    truth = "another" if number % 3 == 0 else f"W{number}"
    return (
        "class Answer(BaseAnswer):\n"
        f'    word: str = VerifiedField(description="The word", ground_truth="{truth}", verify_with=ExactMatch())\n'
    )


def _in_pieces(reply: Reply) -> Reply:
    completion = reply.body
    (choice,) = completion["choices"]
    text = choice["message"]["content"]
    half = len(text) // 2
    said: list[dict[str, Any]] = [{"delta": {"content": part}} for part in (text[:half], text[half:])]
    said.append({"delta": {}, "finish_reason": choice["finish_reason"]})
    chunks = [*({"choices": [{"index": 0, **one}]} for one in said), {"choices": [], "usage": completion["usage"]}]
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return replace(reply, body="".join([*events, "data: [DONE]\n\n"]), headers={"Content-Type": "text/event-stream"})
