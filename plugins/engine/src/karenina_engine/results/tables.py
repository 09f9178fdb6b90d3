"""Tables of results, as rows of plain values and as frames of pandas, Polars and Arrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from karenina_core.errors import ConfigError, KareninaError
from karenina_core.text import did_you_mean
from karenina_engine.results import table_columns as columns
from karenina_engine.results.table_columns import Column

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from karenina_core.data.result import VerificationResult

Cell = str | int | float | bool | datetime | list[str] | None
Row = dict[str, Cell]


class LibraryMissing(KareninaError, ImportError):
    """The library of a kind of frame is not installed."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, its columns, and its rows, which are read again each time.

    Rows have the columns' names as keys, in their order. A cell is None if there is no value.
    """

    name: str
    columns: Sequence[Column]
    rows: Callable[[], Iterable[Row]]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows())

    def cells(self) -> dict[str, list[Cell]]:
        """Return the cells of each column by its name."""
        rows = list(self.rows())
        return {column.name: [row[column.name] for row in rows] for column in self.columns}

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas frame with nullable types: `string`, `Int64`, `Float64`, `boolean`, times in UTC.

        Lists of texts are lists, columns of type `json` hold JSON text. Raises `LibraryMissing`.
        """
        try:
            import pandas
        except ImportError as error:
            raise _missing("pandas") from error
        types = {"text": "string", "json": "string", "integer": "Int64", "number": "Float64", "boolean": "boolean"}
        made: dict[str, Any] = {}
        for column, cells in zip(self.columns, self.cells().values(), strict=True):
            if column.type == "time":
                made[column.name] = pandas.to_datetime(pandas.Series(cells, dtype="object"), utc=True)
            else:
                made[column.name] = pandas.Series(cells, dtype=types.get(column.type, "object"))
        return pandas.DataFrame(made)

    def to_polars(self) -> polars.DataFrame:
        """Return a Polars frame. Columns of type `json` hold JSON text. Raises `LibraryMissing`."""
        try:
            import polars
        except ImportError as error:
            raise _missing("polars") from error
        types: Mapping[str, Any] = {
            "integer": polars.Int64,
            "number": polars.Float64,
            "boolean": polars.Boolean,
            "time": polars.Datetime("us", "UTC"),
            "texts": polars.List(polars.String),
        }
        return polars.DataFrame(
            self.cells(), schema={column.name: types.get(column.type, polars.String) for column in self.columns}
        )

    def to_arrow(self) -> pyarrow.Table:
        """Return an Arrow table; the fields' metadata holds the columns' meanings. Raises `LibraryMissing`."""
        try:
            import pyarrow
        except ImportError as error:
            raise _missing("pyarrow") from error
        types: Mapping[str, Any] = {
            "integer": pyarrow.int64(),
            "number": pyarrow.float64(),
            "boolean": pyarrow.bool_(),
            "time": pyarrow.timestamp("us", "UTC"),
            "texts": pyarrow.list_(pyarrow.string()),
        }
        schema = pyarrow.schema(
            [
                pyarrow.field(one.name, types.get(one.type, pyarrow.string()), metadata={"meaning": one.meaning})
                for one in self.columns
            ]
        )
        return pyarrow.table(self.cells(), schema=schema)


def result_table(results: Iterable[VerificationResult], name: str = "results") -> Table:
    """Return a table of results: `results`, `fields`, `traits`, `excerpts` or `stages`.

    `results` is read each time that the table's rows are. Raises `ConfigError` for another name.
    """
    found = _TABLES.get(name)
    if found is None:
        raise ConfigError([unknown_table(name, _TABLES)])
    of_table, rows_of = found
    return Table(name, of_table, lambda: (row for result in results for row in rows_of(result)))


def unknown_table(name: str, known: Iterable[str]) -> str:
    """Return the error message for a table that does not exist."""
    if name == "calls":
        return "single calls are in the journal and not in results: `karenina export JOURNAL --table calls`"
    known = list(known)
    return f"there is no table {name!r}{did_you_mean(name, known)}; the tables are {', '.join(known)}"


def as_json(value: object) -> str:
    """Return a value as compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _missing(library: str) -> LibraryMissing:
    extra = {"pyarrow": "arrow"}.get(library, library)
    return LibraryMissing(f"{library} is not installed: pip install 'karenina-engine[{extra}]'")


def _item(result: VerificationResult) -> Row:
    meta = result.metadata
    return {
        "result_id": meta.result_id,
        "question_id": meta.question_id,
        "answering_model": meta.answering_id,
        "judge": meta.parsing_id,
        "replicate": meta.replicate or 1,
    }


def _of_result(result: VerificationResult) -> Iterator[Row]:
    meta, template = result.metadata, result.template
    usage = (template.usage_metadata or {}).get("total", {})
    granular = template.verify_granular_result
    yield {
        **_item(result),
        "question": meta.question_text,
        "keywords": list(meta.keywords or ()),
        "raw_answer": meta.raw_answer,
        "answering_interface": meta.answering.interface,
        "answering_name": meta.answering.model_name,
        "judge_interface": meta.parsing.interface,
        "judge_name": meta.parsing.model_name,
        "run_name": meta.run_name,
        "outcome": result.outcome.value,
        "judged": result.outcome.judged,
        "passed": template.verify_result,
        "granular": float(granular) if isinstance(granular, int | float) else None,
        "reason": result.why(),
        "error": meta.error,
        "response": template.raw_llm_response,
        "vetoes": [f"{veto.stage}: {veto.reason}" for veto in result.vetoes],
        "truncated": template.response_truncated,
        "abstained": template.abstention_detected,
        "calls": usage.get("calls", 0),
        "input_tokens": usage.get("input_tokens", 0),
        "output_tokens": usage.get("output_tokens", 0),
        "seconds": meta.execution_time,
        "timestamp": datetime.fromisoformat(meta.timestamp) if meta.timestamp else None,
        "template_id": meta.template_id,
        "extensions": as_json(result.extensions) if result.extensions else None,
    }


def _of_fields(result: VerificationResult) -> Iterator[Row]:
    template = result.template
    extracted, truth = template.parsed_llm_response or {}, template.parsed_gt_response or {}
    passed, scores = template.field_results or {}, template.field_scores or {}
    reasons = (result.deep_judgment.attribute_reasoning if result.deep_judgment is not None else None) or {}
    for name in dict.fromkeys([*truth, *extracted, *passed]):
        yield {
            **_item(result),
            "field": name,
            "extracted": as_json(extracted[name]) if name in extracted else None,
            "truth": as_json(truth[name]) if name in truth else None,
            "passed": passed.get(name),
            "score": scores.get(name),
            "reasoning": reasons.get(name),
        }


def _of_traits(result: VerificationResult) -> Iterator[Row]:
    rubric = result.rubric
    if rubric is None:
        return
    scores, errors = rubric.get_all_trait_scores(), rubric.trait_errors or {}
    labels, reasons = rubric.labels(), rubric.reasons()
    for name in dict.fromkeys([*scores, *errors]):
        value = scores.get(name)
        found = rubric.get_trait_by_name(name)
        yield {
            **_item(result),
            "trait": name,
            "kind": found[1] if found is not None else None,
            "score": float(value) if isinstance(value, int | float) else None,
            "value": as_json(value) if value is not None else None,
            "label": labels.get(name),
            "reasoning": reasons.get(name),
            "error": errors.get(name),
        }


_OWN_COLUMN: Final = ("text", "confidence", "similarity_score", "start", "end")


def _of_excerpts(result: VerificationResult) -> Iterator[Row]:
    fields, traits = result.deep_judgment, result.deep_judgment_rubric
    for kind, excerpts in (
        ("field", fields.extracted_excerpts if fields is not None else None),
        ("trait", traits.extracted_rubric_excerpts if traits is not None else None),
    ):
        for name, found in (excerpts or {}).items():
            for number, one in enumerate(found, 1):
                confidence = one.get("confidence")
                yield {
                    **_item(result),
                    "of": kind,
                    "name": name,
                    "number": number,
                    "text": str(one.get("text", "")),
                    "confidence": None if confidence is None else str(confidence),
                    "similarity": one.get("similarity_score"),
                    "start": one.get("start"),
                    "end": one.get("end"),
                    "details": as_json({key: value for key, value in one.items() if key not in _OWN_COLUMN}),
                }


def _of_stages(result: VerificationResult) -> Iterator[Row]:
    for number, stage in enumerate(result.stages, 1):
        yield {
            **_item(result),
            "number": number,
            "stage": stage.name,
            "slot": stage.slot,
            "status": stage.status,
            "reason": stage.reason or stage.error,
            "seconds": stage.seconds,
            "calls": stage.calls,
            "failed_calls": stage.failed_calls,
            "input_tokens": stage.input_tokens,
            "output_tokens": stage.output_tokens,
            "retries": sum(stage.retries.values()),
            "waited": stage.waited,
            "distribution": stage.distribution,
            "version": stage.version,
        }


_TABLES: Final[Mapping[str, tuple[Sequence[Column], Callable[[VerificationResult], Iterator[Row]]]]] = {
    "results": (columns.RESULTS, _of_result),
    "fields": (columns.FIELDS, _of_fields),
    "traits": (columns.TRAITS, _of_traits),
    "excerpts": (columns.EXCERPTS, _of_excerpts),
    "stages": (columns.STAGES, _of_stages),
}
RESULT_TABLES: Final = tuple(_TABLES)
"""The names of the tables that results have."""
