"""The run of `faults.py --replies`: the server's log and a table determine how each item must end."""

from __future__ import annotations

import json
import logging
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from fake_server import CODE, code, item_of
from reply_kinds import BAIT, CUT, DEAR, HIDDEN, RETRIES, Effect, Expected, Kind, expected, kinds

from karenina import Benchmark, VerificationConfig, VerificationResult
from karenina_core.models.ports import Usage
from karenina_engine.calls.retry import DEFAULT_MAX_RETRIES, RetryPolicy
from karenina_testing.server import Entry, Fault, Log, Request, Say, ScriptedServer, Side

SHARE: Final = 0.31
"""The share of calls with bad replies, in addition to the items whose calls get only one kind of bad reply."""
AT_ONCE: Final = 16
GOOD: Final = (60, 12)
"""The input and output tokens of a good reply."""
PRICES: Final[Mapping[str, Mapping[str, float]]] = {"a": {"input": 1, "output": 4}, "j": {"input": 10, "output": 40}}
"""Prices in dollars per million tokens."""
MOST_TOKENS: Final[Mapping[str, int]] = {"a": 4096, "j": 256}
"""Token limits, which no reply exceeds."""
WIRES: Final[Mapping[str, Mapping[str, Any]]] = {
    "openai": {"interface": "openai"},
    "openai, streamed": {"interface": "openai", "extra": {"stream": True}},
    "openai_endpoint": {"interface": "openai_endpoint"},
    "claude_tool": {"interface": "claude_tool"},
}
Ending = tuple[str, str]
"""A model, and an unknown reason why its replies ended."""
NONE: Final = "(none)"
GOOD_REPLY: Final = "(good)"
_CENTS: Final = Decimal("0.0001")

_AT_ONCE_AGAIN: Final = RetryPolicy(max_retries=DEFAULT_MAX_RETRIES, base=0.01, cap=0.05)
_COUNTED: Final = re.compile(
    r"server of (\S+) ended (\d+) repl(?:y|ies) (?:with the unknown reason '([^']*)'|without a finish reason)"
)


def truth(item: int) -> str:
    """Return the value that an item asks for. It contains a backslash, which may or may not be a valid JSON escape."""
    return value(code(item))


def value(word: str) -> str:
    """Return a code word in LaTeX, or an empty string for an empty word."""
    if not word:
        return ""
    return rf"\frac{{{word}}}{{2}}" if sum(map(ord, word)) % 2 else rf"\alpha {word}"


def answer(item: int) -> str:
    """Return the answer to an item in a sentence. Every fifth answer is wrong."""
    return f"The code word of item {item} is {code(item if item % 5 else item + 1)}."


def say(request: Request) -> Say:
    """Return a good reply from the model."""
    return Say(answer(int(item_of(request))), usage=Usage(*GOOD), model="m")


def fill(request: Request) -> Say:
    """Return a good reply from the judge: the bait if it is in the request, otherwise the request's last code word."""
    words = [word.decode() for word in CODE.findall(request.data)]
    word = BAIT if BAIT in words else words[-1] if words else ""
    return Say(json.dumps({"word": value(word)}), usage=Usage(*GOOD), model="m")


@dataclass
class Outcomes:
    """The number of calls with one kind of reply on one side, and the expected and actual outcomes of their items."""

    calls: int = 0
    expected: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)


class Run:
    """A run that uses one wire format, with the server's log, the results and the warnings."""

    def __init__(
        self, wire: str, questions: int, budget: Decimal | None = None, share: float = SHARE, only: str | None = None
    ) -> None:
        self.wire, self.questions, self.only = wire, questions, only
        # Calls within max_tokens never exceed a budget together. Without it, several that cost a hundred times what any
        # before them did may, at its end: here, the one item with each kind of dear reply is next to the other.
        self.limits = MOST_TOKENS if budget is not None and only is None else {}
        form = {"messages": wire == "claude_tool", "streamed": "streamed" in wire}
        self.kinds = {judge: kinds(judge=judge, **form) for judge in (False, True)}
        self.log, self.results, self.warnings = self._run(budget, share)

    def _run(
        self, budget: Decimal | None, share: float
    ) -> tuple[Log, dict[int, VerificationResult], dict[Ending, int]]:
        """Run the benchmark, and return the server's log, the results by item, and the counts of unknown endings.

        Raises `SystemExit` if an item has two results.
        """
        path = "" if self.wire == "claude_tool" else "/v1"
        with ScriptedServer(self._side(False, share), self._side(True, share), item_of=item_of, path=path) as server:
            model = {**WIRES[self.wire], "endpoint_base_url": server.url, "endpoint_api_key": "none"}
            config = VerificationConfig.model_validate(
                {
                    "answering_models": [{"id": "a", "model_name": "a", "max_tokens": self.limits.get("a"), **model}],
                    "parsing_models": [{"id": "j", "model_name": "j", "max_tokens": self.limits.get("j"), **model}],
                    "max_concurrency": AT_ONCE,
                    "budget": budget,
                    "prices": PRICES,
                }
            )
            with counted_warnings() as warnings:
                results = benchmark(self.questions).run_verification(config, policy=_AT_ONCE_AGAIN, progress=False)
        found = {int(result.metadata.question_id[1:]): result for result in results}
        if len(found) != len(results):
            raise SystemExit("an item has two results")
        return server.log, found, warnings

    def _side(self, judge: bool, share: float) -> Side:
        """Return the script for one side: a share of bad replies and, for each kind, an item that gets only this kind.

        The first items get no bad replies, so that the server has sent finish reasons before one is missing.
        """
        every = self.kinds[judge]
        if self.only is not None:
            return Side(fill if judge else say, shares={} if judge else {every[self.only].fault: share}, seed=11)
        items: dict[str, Fault | Sequence[Fault | None] | None] = dict.fromkeys(map(str, range(AT_ONCE)))
        for of_judge, found in self.kinds.items():
            for place, kind in enumerate(found.values()):
                again = kind.fault if kind.effect in ("cut", *RETRIES) else [kind.fault, None]
                items[str(AT_ONCE + 2 * place + of_judge)] = again if of_judge == judge else None
        shares = {kind.fault: share / len(every) for kind in every.values()}
        return Side(fill if judge else say, items=items, shares=shares, seed=11)

    def kind(self, entry: Entry) -> Kind | None:
        """Return the kind of the bad reply to a call, or None if it was good."""
        return self.kinds[entry.side == "judge"][entry.fault] if entry.fault is not None else None

    def effects(self, item: int, side: str) -> list[Effect]:
        """Return the effects of the replies to an item's calls on one side."""
        sent = [self.kind(entry) for entry in self.log[str(item)] if entry.side == side]
        return [kind.effect if kind is not None else "read" for kind in sent]

    def tokens(self, entry: Entry) -> tuple[int, int]:
        """Return the input and output tokens of a reply."""
        kind = self.kind(entry)
        return GOOD if kind is None else kind.tokens

    def price(self, entry: Entry) -> Decimal:
        """Return the price of a call in dollars."""
        rates = PRICES["j" if entry.side == "judge" else "a"]
        given, made = self.tokens(entry)
        return (Decimal(given) * Decimal(rates["input"]) + Decimal(made) * Decimal(rates["output"])) / 10**6

    def differences(self) -> Iterator[str]:
        """Yield a line for each way in which items, replies or warnings differ from what is expected."""
        for item in range(self.questions):
            yield from self.differences_of(item)
        met = {(entry.side == "judge", entry.fault) for entry in self.log}
        for judge, found in self.kinds.items():
            yield from (f"no call had the reply {name!r}" for name in found if (judge, name) not in met)
        wanted_counts = Counter(
            (f"{WIRES[self.wire]['interface']}:{'j' if entry.side == 'judge' else 'a'}", kind.reason or NONE)
            for entry in self.log
            if (kind := self.kind(entry)) is not None and kind.effect == "unknown"
        )
        if wanted_counts != self.warnings:
            yield f"unknown reasons: {dict(wanted_counts)} sent, {dict(self.warnings)} reported"

    def differences_of(self, item: int) -> Iterator[str]:
        """Yield a line for each way in which an item differs from what its replies require."""
        result = self.results.get(item)
        if result is None:
            yield f"item {item} has no result"
            return
        for what, wanted, found in self._compared(item, result):
            if wanted != found:
                replies = [f"{entry.side}: {entry.fault}" for entry in self.log[str(item)]]
                why = f" ({result.metadata.error})" if result.metadata.error else ""
                yield f"item {item}, {what}: expected {wanted!r}, found {found!r}{why}; replies: {replies}"

    def _compared(self, item: int, result: VerificationResult) -> Iterator[tuple[str, object, object]]:
        """Yield each property of an item that is compared, with its expected and actual values."""
        made = {side: self.effects(item, side) for side in ("answer", "judge")}
        wanted = self._expected(item)
        if wanted is None:
            yield "calls", "another call", tuple(len(effects) for effects in made.values())
            return
        yield "outcome", wanted.outcome.value, result.outcome.value
        yield "calls", wanted.calls, tuple(len(effects) for effects in made.values())
        template = result.template
        text = (template.raw_llm_response if template is not None else None) or ""
        if wanted.text:
            whole = answer(item)
            left = ("", CUT) if wanted.text == "cut" else (whole, f"{whole}<|im_end|>")
            yield "answer", left[-1] if text not in left else text, text
        usage = (template.usage_metadata or {}).get("total", {}) if template is not None else {}
        sums = [sum(values) for values in zip(*map(self.tokens, self.log[str(item)]), strict=True)]
        yield "tokens", sums, [usage.get("input_tokens", 0), usage.get("output_tokens", 0)]

    def _expected(self, item: int) -> Expected | None:
        """Return what an item's replies require, or None if they require another call."""
        with suppress(LookupError):
            return expected(self.effects(item, "answer"), self.effects(item, "judge"), right=bool(item % 5))
        return None

    def table(self) -> dict[tuple[str, str], Outcomes]:
        """Return the calls and outcomes by side and kind of reply."""
        table: dict[tuple[str, str], Outcomes] = defaultdict(Outcomes)
        for item, result in self.results.items():
            wanted = one.outcome.value if (one := self._expected(item)) is not None else "another call"
            for place in {(entry.side, entry.fault or GOOD_REPLY) for entry in self.log[str(item)]}:
                table[place].expected[wanted] += 1
                table[place].found[result.outcome.value] += 1
        for entry in self.log:
            table[entry.side, entry.fault or GOOD_REPLY].calls += 1
        return table


def benchmark(count: int) -> Benchmark:
    """Return a benchmark with this many questions, each with its own template and ground truth."""
    lines: list[Any] = [{"karenina": 1, "name": "Code words in LaTeX"}]
    for item in range(count):
        word = {"description": "The code word that the response states, in LaTeX.", "ground_truth": truth(item)}
        lines.append(
            {"id": f"q{item}", "question": f"What is the code word of item #{item}?", "answer": {"word": word}}
        )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "words.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)))
        return Benchmark.load(file)


@contextmanager
def counted_warnings() -> Iterator[dict[Ending, int]]:
    """Yield the counts of replies that ended for unknown reasons. The run's warnings in the block update the counts."""
    counts: dict[Ending, int] = {}

    class Counting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said = _COUNTED.search(record.getMessage())
            if said is not None:
                counts[said[1], said[3] or NONE] = int(said[2])

    logger, handler = logging.getLogger("karenina"), Counting(logging.WARNING)
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield counts
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def check_budget(wire: str, questions: int, only: str | None, share: float, budget: Decimal) -> bool:
    """Run within a budget and print the cost.

    Returns whether no item differs and the cost exceeds the budget by no more than the cost of the most expensive call.
    """
    run = Run(wire, questions, budget, share, only)
    prices = [run.price(entry) for entry in run.log]
    spent, largest = sum(prices, Decimal()), max(prices)
    differences = [line for item in run.results for line in run.differences_of(item)]
    what = f"{share:.0%} {only or 'of all kinds'}"
    print(
        f"  budget ${budget:.4f}, {what}: ${spent:.4f} spent on {len(prices)} calls, the largest ${largest:.4f}; "
        f"{len(run.results)} items done, {len(differences)} differences"
    )
    print(*differences[:10], sep="\n", end="\n" if differences else "")
    excess = spent - budget - largest
    if excess > 0:
        print(f"  ${excess:.4f} more than the budget and the largest price")
    return not differences and excess <= 0


def main(questions: int, wires: Sequence[str]) -> None:
    """Run with each wire format, print the outcomes by kind of reply, and exit with 1 if anything differs."""
    failed = False
    for wire in wires:
        run = Run(wire, questions)
        table = run.table()
        bad = sum(found.calls for (_, name), found in table.items() if name != GOOD_REPLY)
        share = f"{bad / len(run.log):.1%} with bad replies"
        print(f"{wire}: {questions} questions, {len(run.results)} results, {len(run.log)} calls, {share}")
        print(f"  {'side':6} {'reply':65} calls  outcomes of its items, expected and found")
        for (side, name), found in sorted(table.items()):
            wanted, got = (
                ", ".join(f"{outcome} {number}" for outcome, number in sorted(counts.items()))
                for counts in (found.expected, found.found)
            )
            print(f"  {side:6} {name:65} {found.calls:5}  {wanted}{'' if got == wanted else f'; FOUND {got}'}")
        differences = list(run.differences())
        print(f"  {len(differences)} differences", *differences[:40], sep="\n  ")
        cost = sum(map(run.price, run.log), Decimal())
        budgets = (
            (None, SHARE, cost / 2),
            (HIDDEN, 0.5, Decimal(questions) / 400),
            (DEAR, 0.6, Decimal(questions) / 400),
        )
        held = [check_budget(wire, questions, only, share, budget.quantize(_CENTS)) for only, share, budget in budgets]
        failed |= bool(differences) or not all(held)
    if failed:
        sys.exit(1)
