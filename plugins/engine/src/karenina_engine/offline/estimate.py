"""Estimating the calls, tokens and cost of a run without making any calls.

The prompts for a sample of the questions are previewed (`karenina_engine.offline.prompt_preview`) for every answering
model and judge. If these do not all need the same calls, up to `MOST` questions are previewed. The others are assumed
to be similar. The lengths of the replies are not known in advance. If the journal has at least three calls by a model
in a stage, their mean is used. Otherwise:

- a prompt has 4 characters per token (from 5 to 3; in non-Latin scripts 1.5, from 2.5 to 1), and its schema is counted;
- a text reply has `TEXT` tokens (least, typical, most), as does the answer in a judge's prompt;
- a JSON reply has the tokens of the filled schema plus `REASONS`;
- an agent takes `TURNS` turns, up to its own limit, and each turn resends everything before it;
- an attached image, or page of a PDF, has from none to the most tokens that the model counts for it;
- the replies of a model are limited by its `max_tokens`;
- a conversation with conditions or a simulated user has from the fewest to the most turns it can have, and typically
  the most.

Calls that a stage makes only in some cases, such as a repeated question or a search, are not included.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from karenina_core.models.ports import Usage
from karenina_engine.calls.call import PanelModel
from karenina_engine.check.attachments import AttachmentCheck, QuestionFiles
from karenina_engine.check.judge_needs import JudgeNeeds
from karenina_engine.check.planner import Planner
from karenina_engine.check.plugin_checks import check_selection, warn_about_plugins
from karenina_engine.check.run_checks import check_questions
from karenina_engine.cost.ledger import SpendCounts, sum_counts
from karenina_engine.cost.price_source import format_cost, to_dollars
from karenina_engine.model_settings import configured_models
from karenina_engine.offline.prompt_preview import NO_JUDGE, Prompt, example_for_schema, preview_prompts
from karenina_engine.run.matrix import Matrix
from karenina_engine.run.plugin_offers import configured_panel
from karenina_toolkit.attachments.support import limits_of, most_tokens
from karenina_toolkit.plugin_lookup import find_adapter

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins
    from karenina_engine.cost.ledger import PriceTable
    from karenina_engine.cost.price_source import Tariff
    from karenina_engine.journal.view import JournalView


class Span(NamedTuple):
    """An uncertain number, with its smallest, typical and largest expected values."""

    least: float
    typical: float
    most: float

    def times(self, other: Span) -> Span:
        """Return the product of two spans, component by component."""
        return Span(*(a * b for a, b in zip(self, other, strict=True)))

    def plus(self, other: Span) -> Span:
        """Return the sum of two spans, component by component."""
        return Span(*(a + b for a, b in zip(self, other, strict=True)))

    def scaled(self, factor: float) -> Span:
        """Return the span multiplied by a number."""
        return Span(*(part * factor for part in self))


SAMPLE: Final = 20
"""The maximum number of questions whose prompts are previewed, if all of these need the same calls."""
MOST: Final = 1000
"""The maximum number otherwise, as with conversations of different lengths."""
TEXT: Final = Span(50, 300, 1500)
REASONS: Final = Span(0, 60, 600)
TURNS: Final = Span(1, 4, 25)
MEASURED: Final = 3
"""The minimum number of calls in a journal for their mean to be used."""

_ANSWER: Final = ("The answer of the model under test would stand here. " * 24).strip()
_TOKENS_PER_ASCII: Final = Span(1 / 5, 1 / 4, 1 / 3)
_TOKENS_PER_SIGN: Final = Span(1 / 2.5, 1 / 1.5, 1)
_OVERHEAD: Final = Span(8, 16, 64)
_SPREAD: Final = Span(0.8, 1, 1.25)  # around measured means
_ZERO: Final = Span(0, 0, 0)
_EVERY: Final = Span(1, 1, 1)
_LONGEST: Final = Span(0, 1, 1)
_SHORTEST: Final = Span(1, 0, 0)

_Key = tuple[str, str, str, str]


@dataclass(slots=True)
class EstimatedLine:
    """The expected calls, tokens and cost of one model in one stage.

    Calls with replies in the journal are not included. `cost` is in picodollars, or None if the price is unknown. If
    `measured` is set, the numbers of tokens are based on calls in the journal. `attached` are those of the input tokens
    that are expected for attachments.
    """

    model: str
    interface: str
    model_name: str
    stage: str
    calls: Span = _ZERO
    input_tokens: Span = _ZERO
    output_tokens: Span = _ZERO
    cost: Span | None = _ZERO
    measured: bool = False
    attached: Span = _ZERO


@dataclass(slots=True)
class Estimate:
    """The expected calls and costs of a run.

    `done` is the number of `items` that have a result in the journal. `kept` is the number of calls for the other items
    that have a reply in the journal, and so are not paid for again. Prompts were previewed for `sample` questions.
    `not_counted` gives the reason for each stage or judge that is not included, and `failed` gives the error of each
    stage whose preview failed. `spent` is what earlier runs with the journal have cost.
    """

    items: int
    done: int
    sample: int
    lines: list[EstimatedLine] = field(default_factory=list)
    kept: int = 0
    not_counted: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)
    spent: SpendCounts = field(default_factory=SpendCounts)

    @property
    def calls(self) -> Span:
        """The expected number of calls of all lines."""
        return _sum(line.calls for line in self.lines)

    @property
    def cost(self) -> Span:
        """The expected cost, in picodollars, of the lines whose price is known."""
        return _sum(line.cost for line in self.lines if line.cost is not None)

    @property
    def known(self) -> bool:
        """Whether the prices of all lines are known."""
        return all(line.cost is not None for line in self.lines)

    def format_cost(self) -> str:
        """Return the cost and its range as text, with "at least" in front if some prices are unknown, or "unknown" if
        all of them are.
        """
        least, typical, most = (format_cost(round(cost)) for cost in self.cost)
        if not self.known and not any(self.cost):
            return "unknown"
        return ("" if self.known else "at least ") + (typical if least == most else f"{typical} ({least} to {most})")

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON-compatible data. A span becomes a list of its smallest, typical and largest
        values. Costs are in US dollars, or None if no price is known.
        """
        return {
            "items": self.items,
            "done": self.done,
            "kept_calls": self.kept,
            "rehearsed_questions": self.sample,
            "calls": [round(call, 2) for call in self.calls],
            "cost_usd": _dollars(self.cost) if self.known or any(self.cost) else None,
            "complete": self.known,
            "spent_earlier_usd": self.spent.to_dict()["cost_usd"],
            "lines": [
                {
                    "model": line.model,
                    "interface": line.interface,
                    "model_name": line.model_name,
                    "stage": line.stage,
                    "calls": [round(call, 2) for call in line.calls],
                    "input_tokens": [round(token) for token in line.input_tokens],
                    "output_tokens": [round(token) for token in line.output_tokens],
                    "attachment_tokens": [round(token) for token in line.attached],
                    "cost_usd": _dollars(line.cost) if line.cost is not None else None,
                    "measured": line.measured,
                }
                for line in self.lines
            ],
            "not_counted": [{"stage": stage, "why": why} for stage, why in self.not_counted.items()],
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
    """Estimate the calls, tokens and cost of a run, or of what remains of it in a journal, without making any calls.
    The prompts of up to `sample` questions are previewed, or of more if these need different calls. Raises `PlanError`
    if a question has no valid plan, `ConfigError` if a required plugin or judge is missing or a stage rejects a
    question, and `JournalError` if the journal cannot be read.

    Logs warnings about unusable plugins, and about fields and traits without effect.
    """
    from karenina_engine.journal.view import JournalView
    from karenina_engine.run.execution import run_blocking

    check_selection(plugins, config)
    warn_about_plugins(plugins)
    planner, judging = Planner(config, plugins), JudgeNeeds(plugins, config, trust)
    attachments = AttachmentCheck(plugins, config, QuestionFiles(None), offline=True)
    survey, _ = check_questions(plugins, config, questions, trust, planner, judging, attachments, offline=True)
    judging.check()
    work = _RemainingWork(Matrix(questions, config, survey.pipelines, configured_panel(plugins, config)))
    if journal is None or not journal.exists():
        work.count(set(), lambda _question: False)
        return run_blocking(lambda: _make_estimate(work, config, plugins, prices, trust, None, sample))
    with JournalView(journal) as view:
        work.count(_finished_items(journal, work.matrix, plugins, trust), view.has_other_text)
        return run_blocking(lambda: _make_estimate(work, config, plugins, prices, trust, view, sample))


def _finished_items(journal: Path, matrix: Matrix, plugins: Plugins, trust: Trust) -> set[int]:
    """Return the indexes of the items whose results in the journal can be reused: what they depend on has not changed,
    and they need not be computed again for another reason, such as an error.
    """
    from karenina_engine.journal.fingerprint import Fingerprints
    from karenina_engine.journal.journal import Journal

    fingerprints = Fingerprints(matrix.config, plugins, trust)
    places: set[int] = set()
    with Journal.open(journal, replaying=True) as stored:
        for task in matrix:
            plan = task.pipeline.plan
            for judge, model in enumerate(task.judges):
                result = stored.result(
                    task.item(judge), fingerprints.compute(task.question, plan, task.answering_model, model)
                )
                if result is not None and not result.again:
                    places.add(task.index(judge))
    return places


def _changed_models(journal: Path, config: VerificationConfig, plugins: Plugins) -> set[str]:
    """Return the ids of the configured models that differ from those in the journal's last run, for example in their
    temperature, so that its replies cannot be used. Models that the run did not have are not included.
    """
    from karenina_engine.journal.journal import Journal
    from karenina_engine.run.port_factory import PortFactory, RunParts

    now = PortFactory(RunParts(plugins, config)).identities([model for _, model in configured_models(config)])
    with Journal.open(journal, replaying=True) as stored:
        then = stored.endpoint_digests()
    return {key[1] for key, digests in now.items() if key in then and set(digests).isdisjoint(then[key])}


@dataclass(frozen=True, slots=True)
class _Pair:
    """An answering model and a judge, by index, and a configuration with just these.

    `first` is True for the judge with which the answering model's prompts are counted.
    """

    model: int
    judge: int
    first: bool
    config: VerificationConfig


@dataclass(frozen=True, slots=True)
class _Sent:
    """A prompt that was previewed for a pair, and whether it is in the shortest conversations, the longest, or both."""

    prompt: Prompt
    pair: _Pair
    part: Span

    @property
    def kind(self) -> tuple[str, Span]:
        """What distinguishes the calls of different questions: their stages, and whether they are certain."""
        return self.prompt.stage, self.part


@dataclass(slots=True)
class _RemainingWork:
    """The answers and items that a run still has to produce.

    `answers` counts the answers by model, and `items` counts the items by model and judge. `places` contains the
    indexes of the questions, and `answered` contains the answers about which the journal may have usable replies.
    """

    matrix: Matrix
    done: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    items: Counter[tuple[int, int]] = field(default_factory=Counter)
    places: list[int] = field(default_factory=list)
    answered: set[tuple[str, int]] = field(default_factory=set)

    def count(self, done: Set[int], is_changed: Callable[[Question], bool]) -> None:
        """Count the items that are not in `done`, together with their answers and questions. Answers to a question that
        `is_changed` are not in `answered`. Call this once, because it adds to the counts.
        """
        core = self.matrix.config.core
        models = {id(model): at for at, model in enumerate(core.answering_models)}
        self.done = len(done)
        per_question = len(core.answering_models) * core.replicate_count
        changed = False
        for task in self.matrix:
            left = [judge for judge in range(len(task.judges)) if task.index(judge) not in done]
            if not left:
                continue
            at = models[id(task.answering_model)]
            self.answers[at] += 1
            for judge in left:
                self.items[at, judge] += 1
            place = task.order // per_question
            if not self.places or self.places[-1] != place:
                self.places.append(place)
                changed = is_changed(task.question)
            if not changed:
                self.answered.add((task.question.id, task.replicate))

    def times(self, sent: _Sent) -> int:
        """Return how often a prompt is sent, if all questions are like the one it was previewed for."""
        if sent.prompt.shared:
            return self.answers[sent.pair.model] if sent.pair.first else 0
        if sent.pair.judge:
            return sum(many for (_, judge), many in self.items.items() if judge == sent.pair.judge)
        return self.items[sent.pair.model, 0]

    def sample(self, most: int) -> list[Question]:
        """Return at most `most` of the remaining questions in order, drawn with a fixed seed. Questions at equal
        distances could all be of one kind.
        """
        chosen = self.places if len(self.places) <= most else Random(0).sample(self.places, most)  # noqa: S311
        return [self.matrix.questions[place] for place in sorted(chosen)]


async def _make_estimate(
    counted: _RemainingWork,
    config: VerificationConfig,
    plugins: Plugins,
    prices: PriceTable,
    trust: Trust,
    view: JournalView | None,
    sample: int,
) -> Estimate:
    """Return an estimate: the prompts of up to `sample` questions, or of more if these need different calls, are
    previewed and scaled up to the remaining work. Calls whose replies in the journal `view` can be reused are
    subtracted. `view` is None if there is no journal.
    """
    matrix = counted.matrix
    estimated = Estimate(len(matrix), counted.done, 0)
    pairs = [
        _Pair(
            at, judge_at, first, config.with_values(answering_models=(model,), parsing_models=(judge,) if judge else ())
        )
        for at, model in enumerate(config.core.answering_models)
        for judge_at, judge, first in _asked_judges(matrix)
        if not (at and judge_at)  # an answer does not depend on the judge, nor a judge's prompt on the answering model
    ]

    async def preview(question: Question) -> list[_Sent]:
        """Return the prompts of a question with each pair of models, and note in `estimated` what cannot be counted. If
        the length of a conversation varies, this contains the prompts of the longest and the shortest one.
        """
        sent: list[_Sent] = []
        for pair in pairs:
            show = partial(preview_prompts, question, pair.config, plugins, trust=trust, answer=_ANSWER)
            done = await show(longest=True)
            sent += [_Sent(prompt, pair, _LONGEST if done.varied else _EVERY) for prompt in done.prompts]
            if done.varied:
                sent += [_Sent(prompt, pair, _SHORTEST) for prompt in (await show(longest=False)).prompts]
            estimated.failed.update(done.failed)
            estimated.not_counted.update((entry.stage, entry.why) for entry in done.unused if entry.why != NO_JUDGE)
        return sent

    previews = [await preview(question) for question in counted.sample(sample)]
    if len({frozenset(Counter(one.kind for one in sent).items()) for sent in previews}) > 1:
        previews = [await preview(question) for question in counted.sample(max(sample, MOST // len(pairs)))]
    estimated.sample = len(previews)
    lines = _LineCounter(view, prices, plugins)
    for one in chain.from_iterable(previews):
        if times := counted.times(one):
            lines.add(one.prompt, one.part.scaled(times / len(previews)))
    counted_stages = {line.stage for line in lines.lines}
    estimated.not_counted = {
        stage: why
        for stage, why in estimated.not_counted.items()
        if stage not in counted_stages | estimated.failed.keys()
    }
    for judge in matrix.judges:
        for other in judge.others if isinstance(judge, PanelModel) else ():
            estimated.not_counted[other.id] = (
                "this judge is asked about only some of the answers, and the number of these answers is not known"
            )
    if view is not None:
        kept = view.count_reusable_calls(counted.answered)
        answering = {model.id for model in config.core.answering_models}
        changed = _changed_models(view.path, config, plugins)
        if changed & answering:  # other models are then asked about other answers
            if any(model not in answering for model, _ in kept):
                estimated.not_counted["replies in the journal"] = (
                    f"{', '.join(sorted(changed & answering))} changed; replies about answers that are still the same "
                    "are not paid for again, so the run may cost less"
                )
            kept = {key: count for key, count in kept.items() if key[0] in answering}
        estimated.kept = lines.subtract_kept({key: count for key, count in kept.items() if key[0] not in changed})
        estimated.spent = sum_counts(line.spent for line in view.spent())
    estimated.lines = lines.with_costs()
    estimated.not_counted |= lines.unknown
    estimated.prices = prices.snapshot()
    return estimated


def _asked_judges(matrix: Matrix) -> list[tuple[int, ModelConfig | None, bool]]:
    """Return the judges that judge every item, those in panels included. Each follows its index among the matrix's
    judges, and is followed by whether it is the first in the list.
    """
    asked = [
        (at, member)
        for at, judge in enumerate(matrix.judges)
        for member in (judge.members if isinstance(judge, PanelModel) else (judge,))
    ]
    return [(at, judge, number == 0) for number, (at, judge) in enumerate(asked)]


class _LineCounter:
    """Builds the lines of an estimate."""

    def __init__(self, view: JournalView | None, prices: PriceTable, plugins: Plugins) -> None:
        self._prices = prices
        self._plugins = plugins
        self.unknown: dict[str, str] = {}
        """The reasons why attachments and charges beside tokens are not counted, by what they belong to."""
        self._models: dict[_Key, ModelConfig] = {}
        self._found: dict[_Key, EstimatedLine] = {}
        spent: dict[_Key, SpendCounts] = {}
        for line in view.spent() if view is not None else ():
            spent.setdefault((line.model, line.interface, line.model_name, line.stage), SpendCounts()).merge(line.spent)
        self._measured = {key: sums for key, sums in spent.items() if sums.calls >= MEASURED and sums.input_tokens}

    @property
    def lines(self) -> list[EstimatedLine]:
        """The lines that have been counted so far."""
        return list(self._found.values())

    def add(self, prompt: Prompt, times: Span) -> None:
        """Count a prompt that is sent `times` times. These numbers may be fractions. If the journal has enough of the
        model's calls in this stage, their mean is used instead of the prompt's tokens.
        """
        model = prompt.target
        key = (model.id, model.interface, model.model_name, prompt.stage)
        self._models[key] = model
        line = self._found.setdefault(key, EstimatedLine(*key, measured=key in self._measured))
        attached = self._tokens_of_attachments(prompt)
        calls, sent, output = _usage_of(prompt, attached)
        line.attached = line.attached.plus(calls.times(attached).times(times))
        if key in self._measured:
            spent = self._measured[key]
            sent, output = (
                calls.scaled(tokens / spent.calls).times(_SPREAD)
                for tokens in (spent.input_tokens, spent.output_tokens)
            )
        line.calls = line.calls.plus(calls.times(times))
        line.input_tokens = line.input_tokens.plus(sent.times(times))
        line.output_tokens = line.output_tokens.plus(output.times(times))

    def _tokens_of_attachments(self, prompt: Prompt) -> Span:
        """Return the expected tokens of a prompt's attachments: from none to the most that they cost, and half of it as
        typical, because only the most is known. Unknown ones count as nothing and are noted in `unknown`.
        """
        model, most = prompt.target, 0
        spec = find_adapter(self._plugins, model.interface).spec
        for attachment in (attachment for message in prompt.messages for attachment in message.attachments):
            tokens = most_tokens((attachment,), limits_of(spec, model))
            if tokens is None:
                why = f"how many tokens {model.model_name} counts for {attachment.media_type or 'them'} is unknown"
                self.unknown[f"attachments for {model.id}"] = f"{why}; set extra.media_tokens"
            most += tokens or 0
        return Span(0, most / 2, most)

    def subtract_kept(self, kept: Mapping[tuple[str, str], int]) -> int:
        """Subtract the calls that have replies in the journal, but from each line at most its typical number of calls,
        and return how many were subtracted. `kept` contains the number of these calls by model id and stage.
        """
        subtracted = 0
        for line in self._found.values():
            count = min(kept.get((line.model, line.stage), 0), round(line.calls.typical))
            if count:
                subtracted += count
                left = Span(*(max(0.0, 1 - count / calls) if calls else 0.0 for calls in line.calls))
                line.calls, line.input_tokens, line.output_tokens, line.attached = (
                    span.times(left) for span in (line.calls, line.input_tokens, line.output_tokens, line.attached)
                )
        return subtracted

    def with_costs(self) -> list[EstimatedLine]:
        """Set the costs of the lines (None without a known price), and return the lines that may have half a call or
        more.
        """
        for key, line in self._found.items():
            tariff = self._prices.price(self._models[key]).expected
            if tariff is None:
                line.cost = None
                continue
            costs = []
            for calls, sent, output in zip(line.calls, line.input_tokens, line.output_tokens, strict=True):
                each = _one_call(sent / calls, output / calls, self._measured.get(key)) if calls else Usage()
                costs.append(calls * tariff.cost(each))
            line.cost = Span(*costs)
            if line.calls.most and key in self._measured:
                self._note_charges(line, tariff, self._measured[key])
        return [line for line in self._found.values() if line.calls.most >= 0.5]

    def _note_charges(self, line: EstimatedLine, tariff: Tariff, measured: SpendCounts) -> None:
        """Note in `unknown` if the `measured` calls cost more than their tokens, or if the cost of some is unknown."""
        counts = measured.output_tokens, measured.cached_tokens, measured.reasoning_tokens, measured.calls
        extra = measured.cost - tariff.cost(Usage(measured.input_tokens, *counts, measured.cache_write_tokens))
        if 0 < measured.unpriced < measured.calls:
            why = f"the cost of {measured.unpriced:,} of the {measured.calls:,} calls in the journal is unknown"
        elif extra * 20 > measured.cost:
            why = f"the {measured.calls:,} calls in the journal cost {format_cost(extra)} more than their tokens"
        else:
            return
        self.unknown[f"what {line.model} charges beside tokens in {line.stage}"] = why


def _one_call(sent: float, output: float, measured: SpendCounts | None) -> Usage:
    """Return the usage of a call with these numbers of tokens. The shares of cached tokens and reasoning are those of
    the `measured` calls, or 0 if there are none.
    """
    if measured is None:
        return Usage(round(sent), round(output), calls=1)
    of_input, of_output = sent / measured.input_tokens, output / (measured.output_tokens or 1)
    return Usage(
        round(sent),
        round(output),
        round(of_input * measured.cached_tokens),
        round(of_output * measured.reasoning_tokens),
        calls=1,
        cache_write_tokens=round(of_input * measured.cache_write_tokens),
    )


def _usage_of(prompt: Prompt, attached: Span = _ZERO) -> tuple[Span, Span, Span]:
    """Return the number of calls for a prompt, which are several for an agent, and the total numbers of input and
    output tokens. `attached` are the tokens of its attachments.
    """
    sent = _tokens_of([message.content for message in prompt.messages]).plus(attached)
    allowed = prompt.target.max_tokens
    if prompt.schema is not None:
        sent = sent.plus(_tokens_of([json.dumps(prompt.schema)]))
        output = _tokens_of([example_for_schema(prompt.schema, "")]).plus(REASONS)
    else:
        output = TEXT
    if allowed is not None:
        output = Span(*(min(tokens, allowed) for tokens in output))
    if prompt.options is None:
        return Span(1, 1, 1), sent.plus(_OVERHEAD), output
    limit = prompt.options.max_turns
    turns = Span(*(min(turn, limit) for turn in TURNS))
    # Every turn resends everything before it: the prompt each time, and on average half of all turns.
    before = turns.times(Span(*(max(0, turn - 1) / 2 for turn in turns))).times(TEXT)
    return turns, turns.times(sent.plus(_OVERHEAD)).plus(before), turns.times(output)


def _tokens_of(texts: Sequence[str]) -> Span:
    """Return an estimate of the number of tokens in `texts`, as a span. A placeholder for an answer counts as a text
    reply.
    """
    total = _ZERO
    for text in texts:
        answers = text.count(_ANSWER)
        size = len(text) - answers * len(_ANSWER)
        length = (_TOKENS_PER_ASCII if text.isascii() else _TOKENS_PER_SIGN).scaled(size)
        total = total.plus(length).plus(TEXT.scaled(answers))
    return total


def _sum(spans: Iterable[Span]) -> Span:
    total = _ZERO
    for span in spans:
        total = total.plus(span)
    return total


def _dollars(span: Span) -> list[float]:
    """Convert a span from picodollars to dollars."""
    return [float(to_dollars(round(cost))) for cost in span]
