"""An estimate of the calls, tokens and costs of a run, made without any call.

For a sample of the questions, the prompts are previewed (`karenina_engine.offline.prompt_preview`) for every answering
model and every judge, and what they would send is counted; the other questions are assumed to be like them. The length
of replies is not known. If the journal holds at least three calls of a model in a stage, their mean is used; otherwise:

- a token of a prompt is 4 characters (from 5 to 3; 1.5 in other scripts, from 2.5 to 1), and the schema is counted;
- a text has `TEXT` tokens (least, typical, most), and so has the answer in a judge's prompt;
- JSON is the filled schema and `REASONS` more tokens;
- an agent takes `TURNS` turns, at most its own limit, and each turn is sent everything before it;
- a model's `max_tokens` is the most that a reply has.

Calls that a stage makes only sometimes (a repeated question, a search) are not included.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from karenina_core.models.ports import Usage
from karenina_engine.cost.price_source import format_cost, to_dollars
from karenina_engine.offline.prompt_preview import Prompt, preview_prompts
from karenina_engine.offline.schema_example import example_for_schema
from karenina_engine.scheduling.matrix import Matrix
from karenina_engine.scheduling.planner import Planner
from karenina_engine.scheduling.plugin_checks import check_selection, warn_about_plugins

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins
    from karenina_engine.cost.price_table import PriceTable
    from karenina_engine.journal.view import JournalView


class Span(NamedTuple):
    """A number that is not known: the least, what is typical, and the most that is to be expected."""

    least: float
    typical: float
    most: float

    def times(self, other: Span) -> Span:
        """The product."""
        return Span(*(a * b for a, b in zip(self, other, strict=True)))

    def plus(self, other: Span) -> Span:
        """The sum."""
        return Span(*(a + b for a, b in zip(self, other, strict=True)))


SAMPLE: Final = 20
"""How many questions are rehearsed at the most."""
TEXT: Final = Span(50, 300, 1500)
REASONS: Final = Span(0, 60, 600)
TURNS: Final = Span(1, 4, 25)
MEASURED: Final = 3
"""Calls of a journal after which what they used is taken for typical."""

_ANSWER: Final = ("The answer of the model under test would stand here. " * 24).strip()
_LETTERS: Final = Span(1 / 5, 1 / 4, 1 / 3)
_SIGNS: Final = Span(1 / 2.5, 1 / 1.5, 1)
_FRAME: Final = Span(8, 16, 64)
_AROUND: Final = Span(0.8, 1, 1.25)  # of what was measured
_NOTHING: Final = Span(0, 0, 0)

_Key = tuple[str, str, str, str]


@dataclass(slots=True)
class EstimatedLine:
    """What a model is expected to be asked in one stage, beside the replies that the journal keeps.

    `cost` is in picodollars, None where the price is not known. `measured` says that its tokens are those of calls of
    the journal.
    """

    model: str
    interface: str
    model_name: str
    stage: str
    calls: Span = _NOTHING
    input_tokens: Span = _NOTHING
    output_tokens: Span = _NOTHING
    cost: Span | None = _NOTHING
    measured: bool = False


@dataclass(slots=True)
class Estimate:
    """What a run is expected to ask and to cost.

    `done` of the `items` have a result in the journal, and `kept` calls of the others have their reply there: neither
    is made or paid again. `sample` questions were rehearsed. `unsaid` are stages with prompts that did not come up,
    and why; `failed` those that could not be rehearsed. `spent` is what earlier runs of the journal have spent, in
    picodollars.
    """

    items: int
    done: int
    sample: int
    lines: list[EstimatedLine] = field(default_factory=list)
    kept: int = 0
    unsaid: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)
    spent: int = 0

    @property
    def calls(self) -> Span:
        """All calls."""
        return _sum(line.calls for line in self.lines)

    @property
    def cost(self) -> Span:
        """The cost of all lines with a known price, in picodollars."""
        return _sum(line.cost for line in self.lines if line.cost is not None)

    @property
    def known(self) -> bool:
        """Whether all prices are known."""
        return all(line.cost is not None for line in self.lines)

    def format_cost(self) -> str:
        """The cost as people read it."""
        least, typical, most = (format_cost(round(one)) for one in self.cost)
        if not self.known and not any(self.cost):
            return "unknown"
        return ("" if self.known else "at least ") + (typical if least == most else f"{typical} ({least} to {most})")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values. Spans are lists of the least, the typical and the most; costs are US dollars."""
        return {
            "items": self.items,
            "done": self.done,
            "kept_calls": self.kept,
            "rehearsed_questions": self.sample,
            "calls": [round(one, 2) for one in self.calls],
            "cost_usd": _dollars(self.cost) if self.known or any(self.cost) else None,
            "complete": self.known,
            "spent_earlier_usd": float(to_dollars(self.spent)),
            "lines": [
                {
                    "model": line.model,
                    "interface": line.interface,
                    "model_name": line.model_name,
                    "stage": line.stage,
                    "calls": [round(one, 2) for one in line.calls],
                    "input_tokens": [round(one) for one in line.input_tokens],
                    "output_tokens": [round(one) for one in line.output_tokens],
                    "cost_usd": _dollars(line.cost) if line.cost is not None else None,
                    "measured": line.measured,
                }
                for line in self.lines
            ],
            "not_counted": [{"stage": stage, "why": why} for stage, why in self.unsaid.items()],
            "not_rehearsed": [{"stage": stage, "error": error} for stage, error in self.failed.items()],
            "prices": dict(self.prices),
        }


def estimate(
    questions: Sequence[Question],
    config: VerificationConfig,
    plugins: Plugins,
    prices: PriceTable,
    *,
    trust: Trust,
    journal: Path | None = None,
    sample: int = SAMPLE,
) -> Estimate:
    """What a run over these questions would ask and cost. Nothing is asked, and the journal is only looked at.

    Raises `PlanError`, `ConfigError` for a required plugin that is not there, and `JournalError` for a journal that
    cannot be read.
    """
    from karenina_engine.journal.view import JournalView
    from karenina_engine.scheduling.blocking import run_blocking

    check_selection(plugins, config)
    warn_about_plugins(plugins)
    found = _Counted(Matrix(questions, config))
    if journal is None or not journal.exists():
        found.count({})
        return run_blocking(lambda: _estimated(found, config, plugins, prices, trust, None, sample))
    with JournalView(journal) as view:
        found.count(_done(journal, questions, config, plugins, trust))
        return run_blocking(lambda: _estimated(found, config, plugins, prices, trust, view, sample))


def _done(
    journal: Path, questions: Sequence[Question], config: VerificationConfig, plugins: Plugins, trust: Trust
) -> dict[int, bool]:
    """The places of the items whose result the journal keeps, and which need not run again."""
    from karenina_engine.journal.fingerprint import Fingerprints
    from karenina_engine.journal.journal import Journal

    fingerprints, planner = Fingerprints(config, plugins, trust), Planner(config, plugins)
    places: dict[int, bool] = {}
    with Journal.open(journal, replaying=True) as kept:
        for task in Matrix(questions, config):
            plan = planner.plan(task.question)
            for judge, model in enumerate(task.judges):
                result = kept.result(
                    task.item(judge), fingerprints.compute(task.question, plan, task.answering_model, model)
                )
                if result is not None and not result.again:
                    places[task.place(judge)] = True
    return places


@dataclass(slots=True)
class _Counted:
    """What is left to do: answers by model, items by model and judge, and which questions they are about."""

    matrix: Matrix
    done: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    items: Counter[tuple[int, int]] = field(default_factory=Counter)
    places: list[int] = field(default_factory=list)
    answered: set[tuple[str, int]] = field(default_factory=set)

    def count(self, done: Mapping[int, bool]) -> None:
        """Go through the matrix."""
        core = self.matrix.config.core
        models = {id(model): at for at, model in enumerate(core.answering_models)}
        self.done = len(done)
        per_question = len(core.answering_models) * core.replicate_count
        for task in self.matrix:
            left = [judge for judge in range(len(task.judges)) if task.place(judge) not in done]
            if not left:
                continue
            at = models[id(task.answering_model)]
            self.answers[at] += 1
            for judge in left:
                self.items[at, judge] += 1
            place = task.order // per_question
            if not self.places or self.places[-1] != place:
                self.places.append(place)
            self.answered.add((task.question.id, task.replicate))

    def sampled(self, most: int) -> list[Question]:
        """Questions of those that are left, evenly spread."""
        many = len(self.places)
        chosen = range(many) if many <= most else (number * many // most for number in range(most))
        return [self.matrix.questions[self.places[at]] for at in chosen]


async def _estimated(
    counted: _Counted,
    config: VerificationConfig,
    plugins: Plugins,
    prices: PriceTable,
    trust: Trust,
    view: JournalView | None,
    sample: int,
) -> Estimate:
    matrix = counted.matrix
    questions = counted.sampled(sample)
    found = Estimate(len(matrix), counted.done, len(questions))
    lines = _Lines(view, prices)
    share = 1 / max(1, len(questions))
    for question in questions:
        for at, model in enumerate(config.core.answering_models):
            for judge_at, judge in enumerate(matrix.judges):
                if at and judge_at:
                    continue  # an answer does not depend on who judges, nor a judge's prompt on which model answered
                pair = config.with_values(answering_models=(model,), parsing_models=(judge,) if judge else ())
                done = await preview_prompts(question, pair, plugins, trust=trust, answer=_ANSWER)
                shared = {one.name for one in Planner(pair, plugins).plan(question).of_scope("answer")}
                for prompt in done.prompts:
                    if prompt.stage in shared:
                        times = counted.answers[at] if not judge_at else 0
                    elif judge_at:
                        times = sum(many for (_, other), many in counted.items.items() if other == judge_at)
                    else:
                        times = counted.items[at, 0]
                    if times:
                        lines.add(prompt, times * share)
                found.failed.update(done.failed)
                found.unsaid.update((one.stage, one.why) for one in done.unsaid)
    said = {line.stage for line in lines.lines}
    found.unsaid = {stage: why for stage, why in found.unsaid.items() if stage not in said | found.failed.keys()}
    if view is not None:
        found.kept = lines.spare(view.kept_calls(counted.answered))
        found.spent = sum(line.spent.cost for line in view.spent())
    found.lines = lines.priced()
    found.prices = prices.snapshot()
    return found


class _Lines:
    """The lines of an estimate while they are counted."""

    def __init__(self, view: JournalView | None, prices: PriceTable) -> None:
        self._prices = prices
        self._models: dict[_Key, ModelConfig] = {}
        self._found: dict[_Key, EstimatedLine] = {}
        self._measured: dict[_Key, tuple[float, float]] = {}
        sums: dict[_Key, list[int]] = {}
        for line in view.spent() if view is not None else ():
            made = line.spent
            total = sums.setdefault((line.model, line.interface, line.model_name, line.stage), [0, 0, 0])
            for at, count in enumerate((made.calls, made.input_tokens, made.output_tokens)):
                total[at] += count
        for key, (calls, sent, said) in sums.items():
            if calls >= MEASURED and sent:
                self._measured[key] = sent / calls, said / calls

    @property
    def lines(self) -> list[EstimatedLine]:
        """The lines so far."""
        return list(self._found.values())

    def add(self, prompt: Prompt, times: float) -> None:
        """Count a prompt that is sent so many times."""
        model = prompt.target
        key = (model.id, model.interface, model.model_name, prompt.stage)
        self._models[key] = model
        line = self._found.setdefault(key, EstimatedLine(*key, measured=key in self._measured))
        calls, sent, said = _used(prompt)
        if key in self._measured:
            sent, said = (calls.times(Span(mean, mean, mean)).times(_AROUND) for mean in self._measured[key])
        many = Span(times, times, times)
        line.calls = line.calls.plus(calls.times(many))
        line.input_tokens = line.input_tokens.plus(sent.times(many))
        line.output_tokens = line.output_tokens.plus(said.times(many))

    def spare(self, kept: Mapping[tuple[str, str], int]) -> int:
        """Take away calls whose reply is kept, by model and stage; how many they are."""
        spared = 0
        for line in self._found.values():
            count = min(kept.get((line.model, line.stage), 0), round(line.calls.typical))
            if count:
                spared += count
                left = max(0.0, 1 - count / line.calls.typical)
                rest = Span(left, left, left)
                line.calls, line.input_tokens, line.output_tokens = (
                    one.times(rest) for one in (line.calls, line.input_tokens, line.output_tokens)
                )
        return spared

    def priced(self) -> list[EstimatedLine]:
        """The lines with their cost, those without a call left out."""
        for key, line in self._found.items():
            tariff = self._prices.price(self._models[key]).tariff
            if tariff is None:
                line.cost = None
                continue
            costs = []
            for calls, sent, said in zip(line.calls, line.input_tokens, line.output_tokens, strict=True):
                each = Usage(round(sent / calls), round(said / calls), calls=1) if calls else Usage()
                costs.append(calls * tariff.cost(each))
            line.cost = Span(*costs)
        return [line for line in self._found.values() if line.calls.most >= 0.5]


def _used(prompt: Prompt) -> tuple[Span, Span, Span]:
    """Calls of one prompt, and the tokens that are sent and said in all of them."""
    sent = _tokens_of([message.content for message in prompt.messages])
    allowed = prompt.target.max_tokens
    if prompt.schema is not None:
        sent = sent.plus(_tokens_of([json.dumps(prompt.schema)]))
        said = _tokens_of([example_for_schema(prompt.schema, "")]).plus(REASONS)
    else:
        said = TEXT
    if allowed is not None:
        said = Span(*(min(one, allowed) for one in said))
    if prompt.options is None:
        return Span(1, 1, 1), sent.plus(_FRAME), said
    limit = prompt.options.max_turns
    turns = Span(*(min(one, limit) for one in TURNS))
    # Every turn is sent what was said before: the prompt each time, and half of all turns in the mean.
    before = turns.times(Span(*(max(0, one - 1) / 2 for one in turns))).times(TEXT)
    return turns, turns.times(sent.plus(_FRAME)).plus(before), turns.times(said)


def _tokens_of(texts: Sequence[str]) -> Span:
    """The tokens of texts, in which the stand-in for an answer counts as a text of a model."""
    total = _NOTHING
    for text in texts:
        answers = text.count(_ANSWER)
        size = len(text) - answers * len(_ANSWER)
        many = Span(answers, answers, answers)
        length = Span(size, size, size).times(_LETTERS if text.isascii() else _SIGNS)
        total = total.plus(length).plus(many.times(TEXT))
    return total


def _sum(spans: Iterable[Span]) -> Span:
    total = _NOTHING
    for span in spans:
        total = total.plus(span)
    return total


def _dollars(span: Span) -> list[float]:
    return [float(to_dollars(round(one))) for one in span]
