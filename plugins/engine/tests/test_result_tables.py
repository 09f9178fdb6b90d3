"""Tables of results: their rows, and frames of pandas, Polars and Arrow."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import (
    ModelIdentity,
    StageRecord,
    VerificationResultDeepJudgment,
    VerificationResultMetadata,
    VerificationResultRubric,
    VerificationResultTemplate,
    VetoRecord,
)
from karenina_core.errors import ConfigError
from karenina_engine.results import table_columns
from karenina_engine.results.result_set import VerificationResultSet
from karenina_engine.results.table_columns import Columns, ColumnType
from karenina_engine.results.tables import RESULT_TABLES


def result(question: str = "q", **fields: Any) -> VerificationResult:
    return VerificationResult(
        metadata=VerificationResultMetadata(
            question_id=question,
            template_id="t",
            result_id=f"{question}-id",
            question_text="Which gene?",
            keywords=["a", "b"],
            answering_id="m",
            parsing_id="j",
            answering=ModelIdentity(interface="openai", model_name="big"),
            parsing=ModelIdentity(interface="local", model_name="small"),
            execution_time=1.5,
            timestamp="2026-01-02T03:04:05.000006+00:00",
        ),
        outcome=Outcome.WRONG,
        template=VerificationResultTemplate(
            raw_llm_response="It is BRCA1.",
            parsed_llm_response={"gene": "BRCA1", "year": None},
            parsed_gt_response={"gene": "BCL2", "year": 2016, "rank": 1},
            verify_result=False,
            verify_granular_result=0.5,
            field_results={"gene": False, "year": True},
            field_scores={"gene": 0.0, "year": 1.0},
            usage_metadata={"total": {"calls": 2, "input_tokens": 10, "output_tokens": 3}},
        ),
        rubric=VerificationResultRubric(
            llm_trait_scores={"clear": 4, "kind": 1, "lost": None},
            llm_trait_labels={"kind": "warm"},
            llm_trait_reasoning={"clear": "short"},
            metric_trait_scores={"found": {"precision": 0.5}},
            trait_errors={"lost": "no reply"},
        ),
        deep_judgment=VerificationResultDeepJudgment(
            attribute_reasoning={"gene": "it says so"},
            extracted_excerpts={
                "gene": [
                    {
                        "text": "BRCA1",
                        "confidence": "high",
                        "similarity_score": 1.0,
                        "start": 6,
                        "end": 11,
                        "match": "x",
                    }
                ]
            },
        ),
        vetoes=[VetoRecord(stage="Check", reason="no", outcome=Outcome.ABSTAINED)],
        stages=[
            StageRecord(name="One", status="ran", calls=2, retries={"server": 1}, distribution="d", version="1"),
            StageRecord(name="Two", status="skipped", reason="off", distribution="d", version="1"),
        ],
        **fields,
    )


def rows(table: str, *results: VerificationResult) -> list[dict[str, Any]]:
    return list(VerificationResultSet(results or [result()]).table(table))


def test_a_result_is_one_row() -> None:
    (row,) = rows("results")

    assert (row["question_id"], row["outcome"], row["judged"], row["passed"]) == ("q", "wrong", True, False)
    assert (row["answering_interface"], row["answering_name"], row["judge_name"]) == ("openai", "big", "small")
    assert (row["calls"], row["input_tokens"], row["granular"], row["seconds"]) == (2, 10, 0.5, 1.5)
    assert row["timestamp"] == datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
    assert row["keywords"] == ["a", "b"]
    assert row["vetoes"] == ["Check: no"]
    assert row["reason"] == "Check: no"


def test_fields_have_extracted_values_and_truths() -> None:
    found = {row["field"]: row for row in rows("fields")}

    assert list(found) == ["gene", "year", "rank"]
    assert (found["gene"]["extracted"], found["gene"]["truth"]) == ('"BRCA1"', '"BCL2"')
    assert (found["gene"]["passed"], found["gene"]["score"]) == (False, 0.0)
    assert found["gene"]["reasoning"] == "it says so"
    assert (found["year"]["extracted"], found["year"]["truth"]) == ("null", "2016")
    assert (found["rank"]["extracted"], found["rank"]["passed"]) == (None, None)


def test_traits_have_scores_labels_and_errors() -> None:
    found = {row["trait"]: row for row in rows("traits")}

    assert (found["clear"]["score"], found["clear"]["value"], found["clear"]["reasoning"]) == (4.0, "4", "short")
    assert (found["kind"]["label"], found["kind"]["kind"]) == ("warm", "llm")
    assert (found["lost"]["value"], found["lost"]["error"]) == (None, "no reply")
    assert (found["found"]["score"], json.loads(found["found"]["value"])) == (None, {"precision": 0.5})


def test_excerpts_have_their_place() -> None:
    (row,) = rows("excerpts")

    assert (row["of"], row["name"], row["text"], row["start"], row["end"]) == ("field", "gene", "BRCA1", 6, 11)
    assert (row["confidence"], row["similarity"], row["details"]) == ("high", 1.0, '{"match":"x"}')


def test_stages_have_calls_and_reasons() -> None:
    one, two = rows("stages")

    assert (one["number"], one["stage"], one["calls"], one["retries"]) == (1, "One", 2, 1)
    assert (two["status"], two["reason"]) == ("skipped", "off")


@pytest.mark.parametrize("table", RESULT_TABLES)
def test_rows_have_the_documented_columns(table: str) -> None:
    columns: Columns[Any] = getattr(table_columns, table.upper())
    types = {
        "text": str,
        "json": str,
        "integer": int,
        "number": float,
        "boolean": bool,
        "time": datetime,
        "texts": list,
    }

    assert types.keys() == set(get_args(ColumnType))
    for row in rows(table):
        assert list(row) == [column.name for column in columns]
        for column in columns:
            assert row[column.name] is None or type(row[column.name]) is types[column.type], column
    assert all(column.meaning.endswith(".") for column in columns)


def test_unknown_tables_are_named_with_their_cure() -> None:
    with pytest.raises(ConfigError, match="there is no table 'field'; did you mean 'fields'"):
        rows("field")
    with pytest.raises(ConfigError, match="karenina export JOURNAL --table calls"):
        rows("calls")


@pytest.mark.parametrize("table", RESULT_TABLES)
def test_frames_hold_the_same_cells(table: str) -> None:
    found = VerificationResultSet([result("q"), result("r")])
    expected = found.table(table).cells()

    arrow = found.to_arrow(table)
    assert arrow.to_pydict() == expected
    assert found.to_polars(table).to_dict(as_series=False) == expected
    pandas = found.to_pandas(table)
    assert list(pandas.columns) == list(expected)
    for name, cells in expected.items():
        assert [None if cell is not cell or str(cell) == "<NA>" else cell for cell in pandas[name]] == cells


@pytest.mark.parametrize("table", RESULT_TABLES)
def test_no_results_are_frames_with_columns(table: str) -> None:
    empty = VerificationResultSet()

    assert empty.to_pandas(table).shape == (0, len(empty.table(table).columns))
    assert empty.to_polars(table).shape == empty.to_pandas(table).shape == empty.to_arrow(table).shape
    assert empty.to_arrow(table).schema == VerificationResultSet([result()]).to_arrow(table).schema
