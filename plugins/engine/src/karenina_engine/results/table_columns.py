"""The columns of result tables, with their types and meanings.

A column of type `json` contains JSON text, because its values may have any type. The text `null` means that null was
extracted, whereas an empty cell means that there is no value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar

from karenina_engine.results.rates import is_number
from karenina_toolkit.known_values import known_fields

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.sections import StageRecord, VerificationResultRubric

ColumnType = Literal["text", "integer", "number", "boolean", "time", "texts", "json"]
Cell = str | int | float | bool | datetime | list[str] | None
Row = dict[str, Cell]
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Column(Generic[S]):
    """A column of a table, with its type and the meaning of its values.

    `value` is a function that returns the cell for a row.
    """

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
    """A trait of a result, together with its score."""

    result: VerificationResult
    rubric: VerificationResultRubric
    name: str
    value: Any


class ExcerptRow(NamedTuple):
    """An excerpt that supports a field or trait. `number` counts the excerpts of each field or trait from 1."""

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
    """Return a row's cells, keyed by column name."""
    return {column.name: column.value(source) for column in columns}


_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def as_json(value: object) -> str:
    """Return a value as a compact JSON string."""
    return _COMPACT.encode(value)


def _item(result: Callable[[S], VerificationResult]) -> Columns[S]:
    """Return the columns that identify the result, which begin every result table. `result` is a function that returns
    the result for a row.
    """
    return (
        Column(
            "result_id",
            "text",
            "The id of the result, unique within a run.",
            lambda row: result(row).metadata.result_id,
        ),
        Column("question_id", "text", "The id of the question.", lambda row: result(row).metadata.question_id),
        Column(
            "answering_model",
            "text",
            "The id of the answering model in the configuration.",
            lambda row: result(row).metadata.answering_id,
        ),
        Column(
            "judge",
            "text",
            "The id of the judge (parsing model) in the configuration.",
            lambda row: result(row).metadata.parsing_id,
        ),
        Column(
            "replicate",
            "integer",
            "The number of the replicate, from 1.",
            lambda row: result(row).metadata.replicate or 1,
        ),
    )


def _number(value: object) -> float | None:
    return float(value) if is_number(value) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _cell(values: Mapping[str, Any] | None, name: str) -> str | None:
    """Return the entry called `name` as JSON, or None if it is missing."""
    return as_json(values[name]) if values is not None and name in values else None


def _known(row: FieldRow) -> str | None:
    """Return the known value that fills the field as JSON, or None if there is none."""
    entry = known_fields(row.result.template).get(row.name)
    return as_json(entry[1].value) if entry is not None and entry[1].value is not None else None


def _total(result: VerificationResult) -> Mapping[str, Any]:
    """Return the total usage in a result. It may be empty."""
    total: Mapping[str, Any] = (result.template.usage_metadata or {}).get("total", {})
    return total


def _reasoning(result: VerificationResult) -> Mapping[str, str]:
    """Return the judge's reasons by field. They are empty without deep judgment."""
    return (result.deep_judgment.attribute_reasoning if result.deep_judgment is not None else None) or {}


def _kind(row: TraitRow) -> str | None:
    """Return the kind of a trait, or None if the trait is not in the rubric."""
    match = row.rubric.get_trait_by_name(row.name)
    return match[1] if match is not None else None


_OWN_COLUMN: Final = ("text", "confidence", "similarity_score", "start", "end")

RESULTS: Final[Columns[VerificationResult]] = (
    *_item(lambda result: result),
    Column("question", "text", "The text of the question.", lambda row: row.metadata.question_text),
    Column("keywords", "texts", "The keywords of the question.", lambda row: list(row.metadata.keywords or ())),
    Column(
        "raw_answer",
        "text",
        "The reference answer in words, if the benchmark has one.",
        lambda row: row.metadata.raw_answer,
    ),
    Column(
        "answering_interface",
        "text",
        "The adapter of the answering model.",
        lambda row: row.metadata.answering.interface,
    ),
    Column(
        "answering_name",
        "text",
        "The provider's name for the answering model.",
        lambda row: row.metadata.answering.model_name,
    ),
    Column("judge_interface", "text", "The adapter of the judge.", lambda row: row.metadata.parsing.interface),
    Column("judge_name", "text", "The provider's name for the judge.", lambda row: row.metadata.parsing.model_name),
    Column("run_name", "text", "The name of the run, if it has one.", lambda row: row.metadata.run_name),
    Column(
        "outcome",
        "text",
        "The outcome: correct, wrong, partial, abstained, parse_error, ...",
        lambda row: row.outcome.value,
    ),
    Column(
        "judged",
        "boolean",
        "Whether the item was judged; false for every error, and for undecided items.",
        lambda row: row.outcome.judged,
    ),
    Column("passed", "boolean", "The verdict; empty if there is none.", lambda row: row.template.verify_result),
    Column(
        "granular",
        "number",
        "The share of correct fields, from 0 to 1; empty if not computed.",
        lambda row: _number(row.template.verify_granular_result),
    ),
    Column("reason", "text", "Why the item has its outcome, in one sentence.", lambda row: row.why()),
    Column("error", "text", "The error of an item that was not judged.", lambda row: row.metadata.error),
    Column(
        "response",
        "text",
        "The text of the answer; for an agent, the whole trace as text.",
        lambda row: row.template.raw_llm_response,
    ),
    Column(
        "vetoes",
        "texts",
        "The objections of guards and checks, each as `stage: reason`.",
        lambda row: [f"{veto.stage}: {veto.reason}" for veto in row.vetoes],
    ),
    Column(
        "truncated",
        "boolean",
        "Whether the answer was cut off at its token limit.",
        lambda row: row.template.response_truncated,
    ),
    Column(
        "abstained",
        "boolean",
        "Whether the model declined to answer; empty if not checked.",
        lambda row: row.template.abstention_detected,
    ),
    Column(
        "calls",
        "integer",
        "Number of model calls for the item. The calls of a shared answer are counted in each judge's row.",
        lambda row: _total(row).get("calls", 0),
    ),
    Column("input_tokens", "integer", "Prompt tokens in these calls.", lambda row: _total(row).get("input_tokens", 0)),
    Column("output_tokens", "integer", "Reply tokens in these calls.", lambda row: _total(row).get("output_tokens", 0)),
    Column(
        "seconds",
        "number",
        "Seconds spent in programs and calls, including those for the answer, without waiting.",
        lambda row: row.metadata.execution_time,
    ),
    Column(
        "timestamp",
        "time",
        "When the item ended, in UTC.",
        lambda row: datetime.fromisoformat(row.metadata.timestamp) if row.metadata.timestamp else None,
    ),
    Column("template_id", "text", "The digest of the answer template.", lambda row: row.metadata.template_id),
    Column(
        "extensions",
        "json",
        "The values that plugins added, keyed by distribution and name (`set_result_field`).",
        lambda row: as_json(row.extensions) if row.extensions else None,
    ),
)

FIELDS: Final[Columns[FieldRow]] = (
    *_item(lambda row: row.result),
    Column("field", "text", "The name of the template field.", lambda row: row.name),
    Column(
        "extracted",
        "json",
        "The value that the judge extracted; empty if the judge extracted none.",
        lambda row: _cell(row.result.template.parsed_llm_response, row.name),
    ),
    Column(
        "source",
        "text",
        "The name of the known value that fills the field; empty if a judge fills it, or the value is missing.",
        lambda row: entry[0] if (entry := known_fields(row.result.template).get(row.name)) is not None else None,
    ),
    Column(
        "known",
        "json",
        "The known value that fills the field; empty if there is none.",
        _known,
    ),
    Column(
        "truth",
        "json",
        "The ground truth; empty if the field has none.",
        lambda row: _cell(row.result.template.parsed_gt_response, row.name),
    ),
    Column(
        "passed",
        "boolean",
        "Whether the field passed; empty if it was not compared or is undecided.",
        lambda row: (row.result.template.field_results or {}).get(row.name),
    ),
    Column(
        "score",
        "number",
        "The score of the field from 0 to 1; empty if it was not compared or is undecided.",
        lambda row: (row.result.template.field_scores or {}).get(row.name),
    ),
    Column(
        "reasoning",
        "text",
        "The judge's reasons for the value, if deep judgment ran.",
        lambda row: _reasoning(row.result).get(row.name),
    ),
)

TRAITS: Final[Columns[TraitRow]] = (
    *_item(lambda row: row.result),
    Column("trait", "text", "The name of the rubric trait.", lambda row: row.name),
    Column(
        "kind",
        "text",
        "The kind of trait: llm, regex, callable, metric, agentic, or a kind added by a plugin.",
        lambda row: _kind(row),
    ),
    Column(
        "score",
        "number",
        "The score as a number, with true as 1; empty if the score is not a number.",
        lambda row: _number(row.value),
    ),
    Column(
        "value",
        "json",
        "The original score, such as true, 4, or the values of a metric; empty if not scored.",
        lambda row: as_json(row.value) if row.value is not None else None,
    ),
    Column(
        "label",
        "text",
        "The class that the score represents; only for literal traits.",
        lambda row: row.rubric.labels().get(row.name),
    ),
    Column("reasoning", "text", "The judge's reasons for the score.", lambda row: row.rubric.reasons().get(row.name)),
    Column("error", "text", "Why the trait has no score.", lambda row: (row.rubric.trait_errors or {}).get(row.name)),
)

EXCERPTS: Final[Columns[ExcerptRow]] = (
    *_item(lambda row: row.result),
    Column("of", "text", "What the excerpt supports: `field` or `trait`.", lambda row: row.of),
    Column("name", "text", "The name of the field or trait.", lambda row: row.name),
    Column("number", "integer", "The number of the excerpt for that field or trait, from 1.", lambda row: row.number),
    Column("text", "text", "The excerpt, as worded in the response.", lambda row: str(row.found.get("text", ""))),
    Column(
        "confidence", "text", "The judge's confidence in the excerpt.", lambda row: _text(row.found.get("confidence"))
    ),
    Column(
        "similarity",
        "number",
        "The similarity of the judge's quotation to the excerpt, from 0 to 1.",
        lambda row: row.found.get("similarity_score"),
    ),
    Column(
        "start",
        "integer",
        "The position of the excerpt's first character in the response, from 0.",
        lambda row: row.found.get("start"),
    ),
    Column("end", "integer", "The position after the excerpt's last character.", lambda row: row.found.get("end")),
    Column(
        "details",
        "json",
        "Other data about the excerpt, such as search results.",
        lambda row: as_json({key: value for key, value in row.found.items() if key not in _OWN_COLUMN}),
    ),
)

STAGES: Final[Columns[StageRow]] = (
    *_item(lambda row: row.result),
    Column("number", "integer", "The position of the stage in the plan, from 1.", lambda row: row.number),
    Column("stage", "text", "The name of the stage.", lambda row: row.record.name),
    Column("slot", "text", "The slot of the stage; empty for an extra stage.", lambda row: row.record.slot),
    Column("status", "text", "`ran`, `skipped` or `failed`.", lambda row: row.record.status),
    Column(
        "reason", "text", "Why the stage was skipped, or its error.", lambda row: row.record.reason or row.record.error
    ),
    Column("seconds", "number", "Seconds spent in the stage's program and calls.", lambda row: row.record.seconds),
    Column("calls", "integer", "Number of calls that the stage made.", lambda row: row.record.calls),
    Column(
        "failed_calls", "integer", "Number of calls that failed on every attempt.", lambda row: row.record.failed_calls
    ),
    Column("input_tokens", "integer", "Prompt tokens in the stage's calls.", lambda row: row.record.input_tokens),
    Column("output_tokens", "integer", "Reply tokens in the stage's calls.", lambda row: row.record.output_tokens),
    Column("retries", "integer", "Number of requests that were retries.", lambda row: sum(row.record.retries.values())),
    Column(
        "waited",
        "number",
        "Seconds spent waiting for a limit, for the budget, or before retries.",
        lambda row: row.record.waited,
    ),
    Column("distribution", "text", "The distribution of the stage.", lambda row: row.record.distribution),
    Column("version", "text", "The version of the distribution.", lambda row: row.record.version),
)

CALLS: Final[Columns[Sequence[Any]]] = (
    Column("question_id", "text", "The id of the question.", lambda row: row[7]),
    Column("replicate", "integer", "The number of the replicate, from 1.", lambda row: row[8]),
    Column("model", "text", "The id of the model in the configuration, or the name of a service.", lambda row: row[2]),
    Column("interface", "text", "The adapter of the model.", lambda row: row[3]),
    Column("model_name", "text", "The provider's name for the model.", lambda row: row[4]),
    Column("port", "text", "The kind of call: llm, parser, agent or service.", lambda row: row[1]),
    Column("stage", "text", "The stage that made the call.", lambda row: row[5]),
    Column("task", "text", "The task of the prompt.", lambda row: row[6]),
    Column("failed", "boolean", "Whether the call failed.", lambda row: bool(row[9])),
    Column(
        "reusable",
        "boolean",
        "Whether the reply is used again if the same call is needed again.",
        lambda row: bool(row[10]),
    ),
    Column("finish_reason", "text", "Why the model stopped, as the provider reports it.", lambda row: row[11]),
    Column(
        "input_tokens",
        "integer",
        "Tokens in the prompt; 0 for an agent run, whose turns have their own rows.",
        lambda row: row[12],
    ),
    Column(
        "output_tokens",
        "integer",
        "Tokens in the reply; 0 for an agent run, whose turns have their own rows.",
        lambda row: row[13],
    ),
    Column(
        "calls",
        "integer",
        "Number of requests that the model answered; 0 for an agent run, whose turns have their own rows.",
        lambda row: row[14],
    ),
    Column("seconds", "number", "Seconds spent in requests.", lambda row: row[15]),
    Column(
        "retries", "integer", "Number of requests that were retries.", lambda row: sum(json.loads(row[16]).values())
    ),
    Column(
        "waited",
        "number",
        "Seconds spent waiting for a limit, for the budget, or before retries.",
        lambda row: row[17],
    ),
    Column("time", "time", "When the reply was stored, in UTC.", lambda row: datetime.fromtimestamp(row[18], UTC)),
    Column("reply", "json", "The reply, or the error of a failed call.", lambda row: row[19]),
    Column(
        "key",
        "text",
        "The SHA-256 of everything that was sent; calls with the same key are identical.",
        lambda row: bytes(row[0]).hex(),
    ),
)
