"""The lines of result files: what several results share is written once, and every file reads back as it was."""

from __future__ import annotations

import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest
from any_results import RESULTS
from hypothesis import given
from pydantic import BaseModel, ValidationError
from result_metadata import metadata

from karenina_core import Outcome, VerificationResult
from karenina_core.data import sections
from karenina_core.data.sections import StageRecord
from karenina_engine.results.result_file import is_header
from karenina_engine.results.result_lines import ResultFileError
from karenina_engine.results.result_set import VerificationResultSet, count_results, read_results

DEFAULTS = Path(__file__).with_name("data") / "result_defaults.json"
DISTRIBUTION = {"distribution": "karenina-template", "version": "0.1.0"}


def item(question: str = "q", *, judge: str = "j", reason: str = "the model has no MCP servers") -> VerificationResult:
    """Return a result with three stages, of which one was skipped."""
    return VerificationResult(
        metadata=metadata(question, judge),
        outcome=Outcome.WRONG,
        template=sections.VerificationResultTemplate(raw_llm_response="It is TP53.", field_results={"gene": False}),
        stages=[
            StageRecord(name="GenerateAnswer", slot="generate_answer", status="ran", seconds=0.25, **DISTRIBUTION),
            StageRecord(name="TraceValidationAutoFail", status="skipped", reason=reason, **DISTRIBUTION),
            StageRecord(name="VerifyTemplate", status="failed", error="no", seconds=0.000012, **DISTRIBUTION),
        ],
    )


def write(path: Path, *results: VerificationResult) -> list[str]:
    """Write a file of results, and return its lines."""
    VerificationResultSet(results).save(path)
    return path.read_text("utf-8").splitlines()


@given(RESULTS)
def test_results_read_back_equal_from_compact_and_full_lines(tmp_path_factory: Any, results: Any) -> None:
    path = tmp_path_factory.mktemp("law") / "results.jsonl"
    for full in (False, True):
        VerificationResultSet(results).save(path, full=full)
        again = list(read_results(path))
        assert again == results
        assert [one.model_dump_json() for one in again] == [one.model_dump_json() for one in results]


def test_names_of_models_and_stages_are_written_once(tmp_path: Path) -> None:
    lines = write(tmp_path / "r.jsonl", item("1"), item("2"), item("3", judge="another"))
    text = "".join(lines)
    assert [text.count(word) for word in ("GenerateAnswer", "karenina-template", "MCP servers", '"model_name"')] == [
        *(1, 3, 1, 2)
    ]
    assert [line for line in lines if not is_header(line.encode())] == lines[2:]


def test_a_judge_with_the_id_of_the_answering_model_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    line = write(path, item(judge="a"))[-1]
    assert '"answering_id":"a"' in line
    assert "parsing_id" not in line
    assert [one.metadata.parsing_id for one in read_results(path)] == ["a"]


def test_table_rows_have_no_order_and_files_can_be_joined(tmp_path: Path) -> None:
    results = [item("1"), item("2", reason="something else"), item("3", judge="another")]
    lines = [line for one in results for line in write(tmp_path / f"{one.question_id}.jsonl", one)]
    (tmp_path / "joined.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    assert list(read_results(tmp_path / "joined.jsonl")) == results

    random.Random(1).shuffle(lines)
    lines.sort(key=lambda line: line.startswith('{"row"'))
    (tmp_path / "mixed.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    assert sorted(read_results(tmp_path / "mixed.jsonl"), key=lambda one: one.question_id) == results


def test_a_line_without_its_table_is_read_without_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "one.jsonl").write_text(write(tmp_path / "all.jsonl", item("1"), item("2"))[-1] + "\n", "utf-8")
    with caplog.at_level(logging.WARNING):
        (found,) = read_results(tmp_path / "one.jsonl")
    whole = item("2")
    assert (found.outcome, found.template, found.item) == (whole.outcome, whole.template, whole.item)
    assert [(one.status, one.seconds, one.error) for one in found.stages] == [
        (one.status, one.seconds, one.error) for one in whole.stages
    ]
    assert {one.name for one in found.stages} == {found.metadata.answering.model_name} == {"unknown"}
    assert found.stages[1].reason == "unknown"
    assert "line 1 does not contain the names of its models and stages" in caplog.text
    assert len(caplog.records) == 1


def test_rows_after_their_results_are_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    results = [item(str(number)) for number in range(3)]
    lines = write(tmp_path / "all.jsonl", *results)
    (tmp_path / "sorted.jsonl").write_text("\n".join(sorted(lines)) + "\n", "utf-8")
    (tmp_path / "reversed.json").write_text(json.dumps([json.loads(line) for line in lines[::-1]]), "utf-8")
    assert sorted(lines)[0].startswith('{"row"')
    assert list(read_results(tmp_path / "sorted.jsonl")) == results
    assert list(read_results(tmp_path / "reversed.json")) == results[::-1]
    assert not caplog.records


def test_missing_names_in_a_document_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = write(tmp_path / "all.jsonl", item("1"), item("2"))
    (tmp_path / "some.json").write_text(f"[{','.join(lines[-2:])}]", "utf-8")
    assert {one.metadata.answering.model_name for one in read_results(tmp_path / "some.json")} == {"unknown"}
    (record,) = caplog.records
    assert "some.json, result 1 does not contain the names of its models" in record.getMessage()


def test_results_that_occur_twice_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = write(tmp_path / "all.jsonl", item("1"), item("2"))
    table, first, second = "\n".join(lines[:-2]), *lines[-2:]
    assert len(list(read_results(tmp_path / "all.jsonl"))) == 2
    assert not caplog.records
    (tmp_path / "joined.jsonl").write_text("\n".join([table, first, second, table, first, second, ""]), "utf-8")
    (tmp_path / "joined.json").write_text(f"[{','.join([*lines, first])}]", "utf-8")
    for name, count in (("joined.jsonl", 4), ("joined.json", 3)):
        assert len(list(read_results(tmp_path / name))) == count
    texts = [record.getMessage() for record in caplog.records]
    assert [text.partition("joined")[2].partition(". ")[0] for text in texts] == [
        f".jsonl contains 2 results more than once, the first at line {2 * len(lines) - 1}",
        f".json contains 1 result more than once, the first at result {len(lines) + 1}",
    ]


def test_missing_names_are_reported_once_for_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = write(tmp_path / "all.jsonl", *(item(str(number)) for number in range(5)))
    (tmp_path / "some.jsonl").write_text("\n".join(lines[-3:]) + "\n", "utf-8")
    assert len(list(read_results(tmp_path / "some.jsonl"))) == 3
    assert len(caplog.records) == 1


def test_missing_names_are_reported_for_a_result_without_skipped_stages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = item("1")
    del whole.stages[1]
    (tmp_path / "one.jsonl").write_text(write(tmp_path / "all.jsonl", whole)[-1] + "\n", "utf-8")
    (found,) = read_results(tmp_path / "one.jsonl")
    assert {one.name for one in found.stages} == {"unknown"}
    assert "line 1 does not contain the names of its models and stages" in caplog.text


@pytest.mark.parametrize("change", ["GenerateAnswer", "karenina-template", "MCP servers"])
def test_a_changed_row_gives_no_wrong_name(tmp_path: Path, change: str) -> None:
    path = tmp_path / "r.jsonl"
    lines = write(path, item())
    path.write_text("\n".join(lines).replace(change, "Altered") + "\n", "utf-8")
    (found,) = read_results(path)
    assert "Altered" not in found.model_dump_json()
    assert "unknown" in found.model_dump_json()


def test_stages_that_do_not_match_their_row_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    *rows, line = write(path, item())
    path.write_text("\n".join([*rows, line.replace('"stages":[0.25,', '"stages":[')]) + "\n", "utf-8")
    with pytest.raises(
        ResultFileError, match=r"r\.jsonl, line 3 and its row in the table have different numbers of stages"
    ):
        list(read_results(path))


@pytest.mark.parametrize("entry", ["[1]", "1e999", '{"seconds":"long"}'])
def test_a_stage_with_damaged_seconds_is_an_error(tmp_path: Path, entry: str) -> None:
    path = tmp_path / "r.jsonl"
    *rows, line = write(path, item("1"), item("2"))
    path.write_text("\n".join([*rows, line.replace('"stages":[0.25,', f'"stages":[{entry},')]) + "\n", "utf-8")
    with pytest.raises(ResultFileError, match=r"r\.jsonl, line 4 is not (a result .*'stages\.0\.seconds'|valid JSON)"):
        list(read_results(path))


def test_models_and_stages_that_results_share_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write(path, item("1"), item("2"))
    first, second = read_results(path)
    for shared in (first.stages[0], first.stages[1], first.metadata.answering):
        with pytest.raises(ValidationError, match="frozen"):
            shared.seconds = 7.0  # type: ignore[union-attr]
    assert first.stages == second.stages == item().stages


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        ('{"row":"x","metadata"', "is incomplete"),
        ('{"row":"x","metadata":{}}', "is not a result of this version"),
        ('{"row":7,"metadata":3,"stages":[]}', "is not a result of this version"),
        ('{"row":"x","metadata":{},"stages":{"a":1}}', "is not a result of this version"),
        ('{"row":"x","outcome":NaN}', "is not valid JSON"),
    ],
)
def test_a_line_that_is_no_result_is_an_error(tmp_path: Path, damaged: str, problem: str) -> None:
    (tmp_path / "r.jsonl").write_text(f"{damaged}\n", "utf-8")
    with pytest.raises(ResultFileError, match=rf"r\.jsonl, line 1 {problem}"):
        list(read_results(tmp_path / "r.jsonl"))


def test_the_lines_of_a_file_as_one_document_are_read(tmp_path: Path) -> None:
    results = [item("1"), item("2")]
    lines = write(tmp_path / "r.jsonl", *results)
    document = [{"run": {"distributions": {}}}, *map(json.loads, lines)]
    (tmp_path / "r.json").write_text(json.dumps(document), "utf-8")
    assert list(read_results(tmp_path / "r.json")) == results
    assert count_results(tmp_path / "r.json") == 2


def test_reasons_that_differ_for_each_item_stay_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karenina_engine.results.result_lines.MOST_ROWS", 1_000)
    results = [item(str(number), reason=f"the answer has {number} words") for number in range(1_100)]
    path = tmp_path / "r.jsonl"
    VerificationResultSet(results).save(path)
    assert path.stat().st_size < 600 * len(results)
    assert list(read_results(path)) == results


def defaults(model: type[BaseModel]) -> dict[str, Any]:
    """Return the default value of each field that has one, in a model and the models in it."""
    return {
        name: json.loads(json.dumps(field.get_default(call_default_factory=True), default=dict))
        for name, field in model.model_fields.items()
        if not field.is_required()
    }


def test_the_defaults_that_are_left_out_stay_the_same() -> None:
    """Files do not contain fields with these values: a change needs a new format, and old files read as they were."""
    kinds = [VerificationResult, *(one for one in vars(sections).values() if isinstance(one, type))]
    found = {kind.__name__: defaults(kind) for kind in kinds if issubclass(kind, sections.Section)}
    assert found == json.loads(DEFAULTS.read_text("utf-8"))
