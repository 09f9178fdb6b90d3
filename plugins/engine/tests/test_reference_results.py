"""Result files of the reference implementation: what is read, which outcome each result has, and what is kept."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.data.outcome import Outcome
from karenina_engine.results.result_set import ResultFileError, VerificationResultSet, read_results


def row(id: str = "q1", *, verdict: Any = True, failure: Any = None, model: str = "m", **more: Any) -> dict[str, Any]:
    """Return a result as the reference exports it."""
    meta = {
        "question_id": id,
        "template_id": "t",
        "failure": failure,
        "caveats": [],
        "question_text": "Which metal is liquid?",
        "raw_answer": "mercury",
        "answering": {"interface": "langchain", "model_name": model, "tools": [], "config_id": None},
        "parsing": {"interface": "langchain", "model_name": "judge", "tools": [], "config_id": None},
        "execution_time": 1.5,
        "timestamp": "2026-02-03T04:05:06+00:00",
        "result_id": "r1",
        "replicate": None,
        **more.pop("metadata", {}),
    }
    template = {
        "raw_llm_response": "It is mercury.",
        "parsed_llm_response": {"metal": "mercury"},
        "parsed_gt_response": {"metal": "mercury"},
        "template_verification_performed": True,
        "verify_result": verdict,
        "verify_granular_result": None,
        "usage_unavailable": False,
        **more.pop("template", {}),
    }
    return {"metadata": meta, "template": template, "rubric": None, "used_full_trace": True, **more}


def failed(category: str, stage: str) -> dict[str, Any]:
    return {"category": category, "stage": stage, "reason": "it took too long", "details": None, "group": "x"}


def read(path: Path, document: Any) -> VerificationResultSet:
    path.write_text(json.dumps(document), "utf-8")
    return VerificationResultSet.load(path)


def export(*rows: Any) -> dict[str, Any]:
    """Return an export of a run."""
    return {"format_version": "2.2", "metadata": {"job_id": "j"}, "shared_data": {}, "results": list(rows)}


def test_an_export_has_results_and_a_summary(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = read(tmp_path / "export.json", export(row("q1"), row("q2", verdict=False)))

    assert [one.outcome for one in found] == [Outcome.CORRECT, Outcome.WRONG]
    assert found.summary().pass_rate.value == 0.5
    first = found[0]
    assert first.metadata.answering.display_string == "langchain:m"
    assert (first.metadata.answering_id, first.metadata.parsing_id) == ("m", "judge")
    assert first.template.parsed_llm_response == {"metal": "mercury"}
    assert "its results (2) keep their verdicts" in caplog.text


@pytest.mark.parametrize(
    "document",
    [
        export(row()),
        [row()],
        {"r1": row()},
        {"results": {"r1": row()}, "metadata": {}},
        {"runs": {"night": [row()]}},
    ],
    ids=["export", "list", "by id", "early export", "archive"],
)
def test_every_kind_of_document_is_read(tmp_path: Path, document: Any) -> None:
    (found,) = read(tmp_path / "some.json", document)

    assert found.outcome is Outcome.CORRECT
    assert found.metadata.run_name == ("night" if "runs" in document else None)


def test_lines_are_read(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    file.write_text(json.dumps(row("q1")) + "\n" + json.dumps(row("q2")) + "\n", "utf-8")

    assert [one.question_id for one in read_results(file)] == ["q1", "q2"]


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (row(verdict=True, failure=failed("timeout", "generate_answer")), Outcome.MODEL_ERROR),
        (row(verdict=False, failure=failed("rate_limit", "parse_template")), Outcome.PARSE_ERROR),
        (row(verdict=False, failure=failed("server_error", "RubricEvaluation")), Outcome.STAGE_ERROR),
        (row(verdict=None, failure=failed("parsing", "ParseTemplate")), Outcome.PARSE_ERROR),
        (row(verdict=None, failure=failed("template_validation", "ValidateTemplate")), Outcome.TEMPLATE_ERROR),
        (row(verdict=False, failure=failed("unexpected_error", "x")), Outcome.STAGE_ERROR),
        (row(verdict=False, failure=failed("recursion_limit", "RecursionLimitAutoFail")), Outcome.AUTO_FAILED),
        (row(verdict=False, failure=failed("abstention", "AbstentionCheck")), Outcome.ABSTAINED),
        (row(verdict=False, failure=failed("sufficiency", "SufficiencyCheck")), Outcome.INSUFFICIENT),
        (row(verdict=False, failure=failed("content", "VerifyTemplate")), Outcome.WRONG),
        (row(verdict=False, template={"verify_granular_result": 0.5}), Outcome.PARTIAL),
        (row(verdict=None, rubric={"llm_trait_scores": {"clear": True}}), Outcome.SCORED),
        (row(verdict=None), Outcome.STAGE_ERROR),
        (
            row(
                verdict=False,
                metadata={"completed_without_errors": False, "error": "no route"},
                template={"raw_llm_response": ""},
            ),
            Outcome.MODEL_ERROR,
        ),
        (
            row(
                verdict=False,
                metadata={"completed_without_errors": False, "error": "bad JSON"},
                template={"parsed_llm_response": None},
            ),
            Outcome.PARSE_ERROR,
        ),
        (
            row(verdict=False, template={"abstention_detected": True, "abstention_override_applied": True}),
            Outcome.ABSTAINED,
        ),
        (row(verdict=False, template={"recursion_limit_reached": True}), Outcome.AUTO_FAILED),
    ],
)
def test_each_result_has_the_outcome_of_its_failure(tmp_path: Path, given: Any, outcome: Outcome) -> None:
    (found,) = read(tmp_path / "some.json", export(given))

    assert found.outcome is outcome
    assert (found.template.verify_result is None) is (not outcome.judged or outcome is Outcome.SCORED)
    assert found.why()


def test_what_results_do_not_have_is_kept(tmp_path: Path) -> None:
    given = row(
        metadata={"few_shot_enabled": True, "warnings": ["slow"]},
        template={"usage_unavailable": True},
        rubric={"agentic_trait_investigation_traces": {"a": "looked"}, "trait_provenance": {"a": "global"}},
        deep_judgment={"deep_judgment_mode": "full", "deep_judgment_performed": True},
    )

    (found,) = read(tmp_path / "some.json", export(given))

    assert found.rubric is not None
    assert found.rubric.agentic_trait_traces == {"a": "looked"}
    assert found.deep_judgment is not None
    assert found.deep_judgment.deep_judgment_enabled
    assert found.extensions["reference"] == {
        "metadata": {"few_shot_enabled": True, "warnings": ["slow"]},
        "template": {"usage_unavailable": True},
        "rubric": {"trait_provenance": {"a": "global"}},
        "deep_judgment": {"deep_judgment_mode": "full"},
    }


def test_early_files_have_models_as_texts_and_two_replicates(tmp_path: Path) -> None:
    meta = {"answering_model": "openai/gpt-4o", "parsing_model": "anthropic/claude", "answering_replicate": 2}
    given = row(metadata={**meta, "answering": None, "parsing": None, "parsing_replicate": 2, "replicate": None})

    (found,) = read(tmp_path / "some.json", export(given))

    assert (found.metadata.answering.interface, found.metadata.answering_id) == ("openai", "gpt-4o")
    assert (found.metadata.parsing_id, found.metadata.replicate) == ("claude", 2)


def test_no_result_replaces_another(tmp_path: Path) -> None:
    two_tools = {"interface": "langchain", "model_name": "m", "tools": ["search"], "config_id": None}
    rows = [row(), row(), row(metadata={"answering": two_tools})]

    found = read(tmp_path / "some.json", export(*rows))

    assert len({one.item for one in found}) == 3
    assert [one.metadata.answering_id for one in found] == ["langchain:m", "langchain:m", "langchain:m+search"]
    assert [one.metadata.replicate for one in found] == [1, 2, 1]


def test_saved_results_are_equal(tmp_path: Path) -> None:
    found = read(tmp_path / "some.json", export(row(), row("q2", failure=failed("timeout", "generate_answer"))))
    found.save(tmp_path / "some.results.jsonl")

    assert list(VerificationResultSet.load(tmp_path / "some.results.jsonl")) == list(found)


def test_an_own_document_is_read_as_it_is(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "some.json", export(row()))

    (again,) = read(tmp_path / "own.json", {"results": [json.loads(one.model_dump_json())]})

    assert again == one


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (export(row(), {"x": 1}), "result 2 is not a result because it has no `metadata`"),
        (export(row(metadata={"execution_time": "long"})), "result 1 is not a result of this version"),
        (
            export(*(row(metadata={"answering": {"interface": at, "model_name": "m", "tools": 5}}) for at in "ab")),
            "the field 'metadata.answering.tools' is invalid",
        ),
        ([1, 2], "is not a result file"),
        ({"karenina": 1}, "is not a result"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, document: Any, problem: str) -> None:
    with pytest.raises(ResultFileError, match=problem):
        read(tmp_path / "some.json", document)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "openai/m"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "category", "stage"]), inner),
    max_leaves=4,
)
PART = {key: JSON for part in ("metadata", "template") for key in row()[part]}
ROW = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({}, optional=PART)},
    optional=dict.fromkeys(["template", "rubric", "used_full_trace", "deep_judgment", "new"], JSON),
)


@given(st.lists(ROW | JSON, max_size=3), st.booleans())
def test_any_json_is_results_or_a_refusal(tmp_path_factory: pytest.TempPathFactory, rows: Any, bare: bool) -> None:
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_text(json.dumps(rows if bare else export(*rows)), "utf-8")
    try:
        found = list(read_results(file))
    except ResultFileError:
        return
    assert len({one.item for one in found}) == len(found) == len(rows)
