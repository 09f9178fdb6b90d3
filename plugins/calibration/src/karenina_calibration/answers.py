"""The answers of a run, with each judge's verdicts and extracted values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic_core import from_json

from karenina_core.data.outcome import Outcome
from karenina_engine.results.aggregate import has_verdict, is_rated, is_unjudged
from karenina_engine.results.result_text import answer_text, left_out_fields
from karenina_engine.results.tables import result_table
from karenina_report.attached_files import attachments_of
from karenina_report.runs import answer_id, truth_id

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.table_columns import Row

Kind = Literal["field", "trait"]

CORRECT: Final = "correct"
WRONG: Final = "not correct"
DISAGREE: Final = "judges disagree"
UNDECIDED: Final = "undecided"
NOT_JUDGED: Final = "not judged"
SCORED: Final = "scored only"
_BOOLEANS: Final = {"true": "true", "yes": "true", "false": "false", "no": "false"}
"""The JSON boolean that each word represents."""
_COMPUTED: Final = frozenset({"regex", "callable", "metric"})
"""The kinds of traits that are computed by a program rather than by a judge."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """A value that a judge extracted from an answer: a template field, or the score of a trait.

    `value` is JSON. For a literal trait, it is the name of the class. `turn` is the turn of a conversation that a field
    reads, or "all"; None if the answer has only one.
    """

    kind: Kind
    name: str
    value: str
    turn: int | str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judge's judgement of an answer.

    `verdict` is None if the answer was not judged, is undecided, or was only scored.
    """

    judge: str
    judge_model: str
    outcome: Outcome
    template: str
    reason: str
    extractions: Sequence[Extraction]

    @property
    def verdict(self) -> bool | None:
        """Whether the verdict is *correct*. This is False if it is *partly correct*."""
        return self.outcome is Outcome.CORRECT if is_rated(self.outcome, self.template) else None


@dataclass(slots=True)
class Answer:
    """An answer from an answering model, with the judgements of all judges.

    `id` is a digest of the question, model, replicate and text. If another run judges the same stored answer, the
    answer therefore has the same id there. `truth` maps the template's fields to their true values as JSON strings.
    `known` describes the fields that are filled by known values, because people cannot find these values in the answer.
    `drawn_as` is the value of `verdicts` when the answer was drawn. It is only set if the run has been scored again
    since then. `attachments` describes the files that were sent with the question.
    """

    id: str
    question_id: str
    question: str
    model: str
    replicate: int
    text: str
    reference: str | None
    truth: Mapping[str, str]
    known: Mapping[str, str] = field(default_factory=dict)
    judgements: dict[str, Judgement] = field(default_factory=dict)
    drawn_as: str | None = None
    attachments: Sequence[Mapping[str, Any]] = ()

    @property
    def verdicts(self) -> str:
        """A single word for the verdicts of all judges, such as `CORRECT` or `DISAGREE`. It determines the stratum."""
        distinct = {judgement.verdict for judgement in self.judgements.values()} - {None}
        if distinct:
            return DISAGREE if len(distinct) > 1 else CORRECT if True in distinct else WRONG
        outcomes = {judgement.outcome for judgement in self.judgements.values()} - {Outcome.SCORED}
        without = {outcome for outcome in outcomes if not outcome.has_verdict}  # the others have no template
        if not without:
            return SCORED
        return UNDECIDED if without == {Outcome.UNDECIDED} else NOT_JUDGED

    @property
    def truth_id(self) -> str:
        """The id of the ground truth. Labels store this id."""
        return truth_id(self.reference, self.truth)

    @property
    def extractions(self) -> list[Extraction]:
        """The distinct values that judges extracted."""
        return list(
            dict.fromkeys(extraction for judgement in self.judgements.values() for extraction in judgement.extractions)
        )


@dataclass(frozen=True, slots=True)
class AskedAnswer:
    """An answer to show to a labeller, with the extracted values to ask about.

    If the answer is shown again, `why` is the reason. Otherwise, it is empty.
    """

    answer: Answer
    extractions: Sequence[Extraction]
    why: str = ""


@dataclass(slots=True)
class Answers:
    """The answers of one or more runs by ID, and the number of results without an answer by model."""

    by_id: dict[str, Answer] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)

    @property
    def with_verdicts(self) -> list[str]:
        """The IDs of the models with answers that have more than just trait scores."""
        return list(dict.fromkeys(answer.model for answer in self.by_id.values() if answer.verdicts != SCORED))

    def digest(self) -> str:
        """Return a digest of everything that a draw depends on: the answers and their outcomes for each judge."""
        lines = sorted(
            json.dumps([answer.id, sorted((of.judge, of.outcome.value) for of in answer.judgements.values())])
            for answer in self.by_id.values()
        )
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def truth_text(answer: Answer) -> str:
    """Return an answer's ground truth as text: the reference answer, and the true values of any fields that differ from
    it. If a known value fills a field, the field is shown with that value and its result. A boolean is written as
    *true* or *false*, as in extracted values, even if the reference answer is `Yes` or `no`.
    """
    reference = answer.reference or ""
    word = _BOOLEANS.get(reference.strip().lower(), "")
    if word in answer.truth.values():
        reference = word
    parts = [reference] if reference else []
    texts = {**{name: readable(value) for name, value in answer.truth.items()}, **answer.known}
    parts += [f"{name}: {text}" for name, text in texts.items() if text != reference]
    return "; ".join(parts)


def readable(value: str) -> str:
    """Return a JSON value in a form for people to read: strings without quotation marks, and *nothing* for null. Text
    that is not JSON is returned unchanged.
    """
    with suppress(ValueError):
        parsed = from_json(value)
        return parsed if isinstance(parsed, str) else "nothing" if parsed is None else value
    return value


def collect_answers(results: Iterable[VerificationResult]) -> Answers:
    """Collect the answers in the results, with each judge's judgement. A later result for the same answer and judge
    replaces an earlier one. Results with an empty answer are only counted in `missing`, if they should have a verdict.
    """
    answers = Answers()
    missing: dict[str, set[tuple[str, int]]] = {}
    for result in results:
        meta = result.metadata
        if not result.template.raw_llm_response.strip():
            if has_verdict(result) or is_unjudged(result):
                missing.setdefault(meta.answering_id, set()).add((meta.question_id, meta.replicate or 1))
            continue
        id = answer_id(result)
        answer = answers.by_id.get(id) or answers.by_id.setdefault(id, _make_answer(id, result))
        answer.judgements[meta.parsing_id] = Judgement(
            meta.parsing_id,
            meta.parsing_model,
            result.outcome,
            meta.template_id,
            result.why(),
            _extractions(result),
        )
    answers.missing = {model: len(ones) for model, ones in missing.items()}
    return answers


def _make_answer(id: str, result: VerificationResult) -> Answer:
    """Return the answer in a result, without its judgements."""
    meta = result.metadata
    rows = result_table([result], "fields")
    truth = {str(row["field"]): str(row["truth"]) for row in rows if row["truth"] is not None}
    known = {str(row["field"]): _known(row) for row in rows if row["source"] is not None}
    return Answer(
        id,
        meta.question_id,
        meta.question_text,
        meta.answering_id,
        meta.replicate or 1,
        answer_text(result),
        meta.raw_answer,
        truth,
        known,
        attachments=attachments_of(result),
    )


def _known(row: Row) -> str:
    """Return a field's true value, the known value that fills the field, and the result of comparing them."""
    result = "undecided" if row["passed"] is None else "passed" if row["passed"] else "failed"
    return f"{readable(str(row['truth']))} ({row['source']} is {row['known'] or 'not known'}: {result})"


def _extractions(result: VerificationResult) -> tuple[Extraction, ...]:
    """Return the values that the judge extracted, without fields whose turn was left out of the conversation and scores
    that a program computes.
    """
    turns: object = result.extensions.get("karenina-template", {}).get("field_turns")
    numbers = {
        name: turn
        for name, turn in (turns if isinstance(turns, Mapping) else {}).items()
        if isinstance(turn, int | str)
    }
    left_out = left_out_fields(result)
    fields = [
        Extraction("field", name, str(row["extracted"]), numbers.get(name))
        for row in result_table([result], "fields")
        if row["extracted"] is not None and (name := str(row["field"])) not in left_out
    ]
    traits = [
        Extraction("trait", str(row["trait"]), _score(row))
        for row in result_table([result], "traits")
        if row["value"] is not None and row["kind"] not in _COMPUTED
    ]
    return (*fields, *traits)


def _score(row: Row) -> str:
    """Return a trait's score as JSON. For a literal trait, it is the name of the class."""
    return json.dumps(row["label"], ensure_ascii=False) if row["label"] is not None else str(row["value"])
