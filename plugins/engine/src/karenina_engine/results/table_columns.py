"""The columns of result tables: their names, types, meanings, and how a value is read.

A column of type `json` holds JSON text, because its values have any type. In it, `null` means that null was extracted;
an empty cell means that there is no value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.sections import StageRecord, VerificationResultRubric

ColumnType = Literal["text", "integer", "number", "boolean", "time", "texts", "json"]
Cell = str | int | float | bool | datetime | list[str] | None
Row = dict[str, Cell]
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Column(Generic[S]):
    """A column of a table: its name, the type of its values, their meaning with units, and how to get a row's value."""

    name: str
    type: ColumnType
    meaning: str
    value: Callable[[S], Cell]


Columns = tuple[Column[S], ...]


class FieldRow(NamedTuple):
    """A template field of a result."""

    result: VerificationResult
    name: str


class TraitRow(NamedTuple):
    """A trait of a result, and its score."""

    result: VerificationResult
    rubric: VerificationResultRubric
    name: str
    value: Any


class ExcerptRow(NamedTuple):
    """An excerpt in a result, which supports a field or a trait."""

    result: VerificationResult
    of: Literal["field", "trait"]
    name: str
    number: int
    found: Mapping[str, Any]


class StageRow(NamedTuple):
    """A stage of a result."""

    result: VerificationResult
    number: int
    record: StageRecord


def make_row(columns: Iterable[Column[S]], source: S) -> Row:
    """Return a row's cells by column name."""
    return {column.name: column.value(source) for column in columns}


def as_json(value: object) -> str:
    """Return a value as compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _item(result: Callable[[S], VerificationResult]) -> Columns[S]:
    """Return the first columns of every result table, which identify the result that a row belongs to."""
    return (
        Column(
            "result_id", "text", "The id of the result, unique in a run.", lambda one: result(one).metadata.result_id
        ),
        Column("question_id", "text", "The id of the question.", lambda one: result(one).metadata.question_id),
        Column(
            "answering_model",
            "text",
            "The id of the answering model in the configuration.",
            lambda one: result(one).metadata.answering_id,
        ),
        Column(
            "judge",
            "text",
            "The id of the judge (parsing model) in the configuration.",
            lambda one: result(one).metadata.parsing_id,
        ),
        Column(
            "replicate",
            "integer",
            "The number of the replicate, from 1.",
            lambda one: result(one).metadata.replicate or 1,
        ),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _cell(values: Mapping[str, Any] | None, name: str) -> str | None:
    return as_json(values[name]) if values is not None and name in values else None


def _total(result: VerificationResult) -> Mapping[str, Any]:
    total: Mapping[str, Any] = (result.template.usage_metadata or {}).get("total", {})
    return total


def _reasoning(result: VerificationResult) -> Mapping[str, str]:
    return (result.deep_judgment.attribute_reasoning if result.deep_judgment is not None else None) or {}


def _kind(one: TraitRow) -> str | None:
    found = one.rubric.get_trait_by_name(one.name)
    return found[1] if found is not None else None


_OWN_COLUMN: Final = ("text", "confidence", "similarity_score", "start", "end")

RESULTS: Final[Columns[VerificationResult]] = (
    *_item(lambda result: result),
    Column("question", "text", "The text of the question.", lambda one: one.metadata.question_text),
    Column("keywords", "texts", "The keywords of the question.", lambda one: list(one.metadata.keywords or ())),
    Column(
        "raw_answer",
        "text",
        "The reference answer in words, if the benchmark has one.",
        lambda one: one.metadata.raw_answer,
    ),
    Column(
        "answering_interface",
        "text",
        "The adapter of the answering model.",
        lambda one: one.metadata.answering.interface,
    ),
    Column(
        "answering_name",
        "text",
        "The provider's name for the answering model.",
        lambda one: one.metadata.answering.model_name,
    ),
    Column("judge_interface", "text", "The adapter of the judge.", lambda one: one.metadata.parsing.interface),
    Column("judge_name", "text", "The provider's name for the judge.", lambda one: one.metadata.parsing.model_name),
    Column("run_name", "text", "The name of the run, if it has one.", lambda one: one.metadata.run_name),
    Column(
        "outcome",
        "text",
        "The outcome: correct, wrong, partial, abstained, parse_error, ...",
        lambda one: one.outcome.value,
    ),
    Column(
        "judged",
        "boolean",
        "Whether the item was judged; false for every error, and for undecided items.",
        lambda one: one.outcome.judged,
    ),
    Column("passed", "boolean", "The verdict; empty if there is none.", lambda one: one.template.verify_result),
    Column(
        "granular",
        "number",
        "The share of the fields that are right, from 0 to 1; empty if not computed.",
        lambda one: _number(one.template.verify_granular_result),
    ),
    Column("reason", "text", "Why the item has its outcome, in one sentence.", lambda one: one.why()),
    Column("error", "text", "The error of an item that was not judged.", lambda one: one.metadata.error),
    Column(
        "response",
        "text",
        "The text of the answer; for an agent, the whole trace as text.",
        lambda one: one.template.raw_llm_response,
    ),
    Column(
        "vetoes",
        "texts",
        "The objections of guards and checks, each as `stage: reason`.",
        lambda one: [f"{veto.stage}: {veto.reason}" for veto in one.vetoes],
    ),
    Column(
        "truncated",
        "boolean",
        "Whether the answer was cut off at its token limit.",
        lambda one: one.template.response_truncated,
    ),
    Column(
        "abstained",
        "boolean",
        "Whether the model declined to answer; empty if not checked.",
        lambda one: one.template.abstention_detected,
    ),
    Column(
        "calls",
        "integer",
        "Model calls of the item. The calls of a shared answer are counted in each judge's row.",
        lambda one: _total(one).get("calls", 0),
    ),
    Column(
        "input_tokens",
        "integer",
        "Prompt tokens of these calls.",
        lambda one: _total(one).get("input_tokens", 0),
    ),
    Column(
        "output_tokens",
        "integer",
        "Reply tokens of these calls.",
        lambda one: _total(one).get("output_tokens", 0),
    ),
    Column(
        "seconds",
        "number",
        "Seconds spent in programs and calls, including the answer's, without waiting.",
        lambda one: one.metadata.execution_time,
    ),
    Column(
        "timestamp",
        "time",
        "When the item ended, in UTC.",
        lambda one: datetime.fromisoformat(one.metadata.timestamp) if one.metadata.timestamp else None,
    ),
    Column("template_id", "text", "The digest of the answer template.", lambda one: one.metadata.template_id),
    Column(
        "extensions",
        "json",
        "The values that plugins added, by distribution and name (`set_result_field`).",
        lambda one: as_json(one.extensions) if one.extensions else None,
    ),
)

FIELDS: Final[Columns[FieldRow]] = (
    *_item(lambda one: one.result),
    Column("field", "text", "The name of the template field.", lambda one: one.name),
    Column(
        "extracted",
        "json",
        "The value that the judge extracted; empty if the judge extracted none.",
        lambda one: _cell(one.result.template.parsed_llm_response, one.name),
    ),
    Column(
        "truth",
        "json",
        "The ground truth; empty if the field has none.",
        lambda one: _cell(one.result.template.parsed_gt_response, one.name),
    ),
    Column(
        "passed",
        "boolean",
        "Whether the field passed; empty if it was not compared, or is undecided.",
        lambda one: (one.result.template.field_results or {}).get(one.name),
    ),
    Column(
        "score",
        "number",
        "The score of the field from 0 to 1; empty if it was not compared, or is undecided.",
        lambda one: (one.result.template.field_scores or {}).get(one.name),
    ),
    Column(
        "reasoning",
        "text",
        "The judge's reasons for the value, if deep judgment ran.",
        lambda one: _reasoning(one.result).get(one.name),
    ),
)

TRAITS: Final[Columns[TraitRow]] = (
    *_item(lambda one: one.result),
    Column("trait", "text", "The name of the rubric trait.", lambda one: one.name),
    Column(
        "kind",
        "text",
        "The kind of the trait: llm, regex, callable, metric, agentic, or a plugin's own.",
        lambda one: _kind(one),
    ),
    Column(
        "score",
        "number",
        "The score as a number, true as 1; empty if the score is not a number.",
        lambda one: _number(one.value),
    ),
    Column(
        "value",
        "json",
        "The score as it is: true, 4, or the values of a metric; empty if not scored.",
        lambda one: as_json(one.value) if one.value is not None else None,
    ),
    Column(
        "label",
        "text",
        "The class that the score stands for; only for literal traits.",
        lambda one: one.rubric.labels().get(one.name),
    ),
    Column("reasoning", "text", "The judge's reasons for the score.", lambda one: one.rubric.reasons().get(one.name)),
    Column("error", "text", "Why the trait has no score.", lambda one: (one.rubric.trait_errors or {}).get(one.name)),
)

EXCERPTS: Final[Columns[ExcerptRow]] = (
    *_item(lambda one: one.result),
    Column("of", "text", "What the excerpt supports: `field` or `trait`.", lambda one: one.of),
    Column("name", "text", "The name of the field or trait.", lambda one: one.name),
    Column("number", "integer", "The number of the excerpt for that field or trait, from 1.", lambda one: one.number),
    Column("text", "text", "The excerpt, in the response's own words.", lambda one: str(one.found.get("text", ""))),
    Column(
        "confidence", "text", "The judge's confidence in the excerpt.", lambda one: _text(one.found.get("confidence"))
    ),
    Column(
        "similarity",
        "number",
        "The similarity of the judge's quotation to the excerpt, from 0 to 1.",
        lambda one: one.found.get("similarity_score"),
    ),
    Column(
        "start",
        "integer",
        "The position of the excerpt's first character in the response, from 0.",
        lambda one: one.found.get("start"),
    ),
    Column("end", "integer", "The position after its last character.", lambda one: one.found.get("end")),
    Column(
        "details",
        "json",
        "Everything else about the excerpt, such as search results.",
        lambda one: as_json({key: value for key, value in one.found.items() if key not in _OWN_COLUMN}),
    ),
)

STAGES: Final[Columns[StageRow]] = (
    *_item(lambda one: one.result),
    Column("number", "integer", "The position of the stage in the plan, from 1.", lambda one: one.number),
    Column("stage", "text", "The name of the stage.", lambda one: one.record.name),
    Column("slot", "text", "The slot of the stage; empty for an extra stage.", lambda one: one.record.slot),
    Column("status", "text", "`ran`, `skipped` or `failed`.", lambda one: one.record.status),
    Column(
        "reason", "text", "Why the stage was skipped, or its error.", lambda one: one.record.reason or one.record.error
    ),
    Column(
        "seconds",
        "number",
        "Seconds spent in the stage's program and calls.",
        lambda one: one.record.seconds,
    ),
    Column("calls", "integer", "Calls that the stage made.", lambda one: one.record.calls),
    Column("failed_calls", "integer", "Calls that failed in every attempt.", lambda one: one.record.failed_calls),
    Column("input_tokens", "integer", "Prompt tokens of its calls.", lambda one: one.record.input_tokens),
    Column("output_tokens", "integer", "Reply tokens of its calls.", lambda one: one.record.output_tokens),
    Column("retries", "integer", "Requests that were retries.", lambda one: sum(one.record.retries.values())),
    Column(
        "waited",
        "number",
        "Seconds waited: for a limit, for the budget, before retries.",
        lambda one: one.record.waited,
    ),
    Column("distribution", "text", "The distribution of the stage.", lambda one: one.record.distribution),
    Column("version", "text", "The version of the distribution.", lambda one: one.record.version),
)

CALLS: Final[Columns[Sequence[Any]]] = (
    Column("question_id", "text", "The id of the question.", lambda row: row[7]),
    Column("replicate", "integer", "The number of the replicate, from 1.", lambda row: row[8]),
    Column("model", "text", "The id of the model in the configuration, or the name of a service.", lambda row: row[2]),
    Column("interface", "text", "The adapter of the model.", lambda row: row[3]),
    Column("model_name", "text", "The provider's name for the model.", lambda row: row[4]),
    Column("port", "text", "The kind of the call: llm, parser, agent or service.", lambda row: row[1]),
    Column("stage", "text", "The stage that made the call.", lambda row: row[5]),
    Column("task", "text", "The task of the prompt.", lambda row: row[6]),
    Column("failed", "boolean", "Whether the call failed.", lambda row: bool(row[9])),
    Column(
        "reusable", "boolean", "Whether the reply is used if the same call is needed again.", lambda row: bool(row[10])
    ),
    Column("finish_reason", "text", "Why the model stopped, as the provider reports it.", lambda row: row[11]),
    Column(
        "input_tokens",
        "integer",
        "Tokens of the prompt; 0 for an agent's run, whose turns have rows.",
        lambda row: row[12],
    ),
    Column(
        "output_tokens",
        "integer",
        "Tokens of the reply; 0 for an agent's run, whose turns have rows.",
        lambda row: row[13],
    ),
    Column(
        "calls",
        "integer",
        "Requests that the model answered; 0 for an agent's run, whose turns have rows.",
        lambda row: row[14],
    ),
    Column("seconds", "number", "Seconds spent in requests.", lambda row: row[15]),
    Column("retries", "integer", "Requests that were retries.", lambda row: sum(json.loads(row[16]).values())),
    Column("waited", "number", "Seconds waited: for a limit, for the budget, before retries.", lambda row: row[17]),
    Column("time", "time", "When the reply was stored, in UTC.", lambda row: datetime.fromtimestamp(row[18], UTC)),
    Column("reply", "json", "The reply, or the error of a failed call.", lambda row: row[19]),
    Column(
        "key",
        "text",
        "The SHA-256 of everything that was sent; calls with the same key are identical.",
        lambda row: bytes(row[0]).hex(),
    ),
)
