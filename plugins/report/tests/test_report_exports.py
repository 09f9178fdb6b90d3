"""JUnit XML and Markdown, as CI servers and people read them."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from result_builders import result

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_engine.results.tables import result_table
from karenina_report.exports.exporter import ExportRequest
from karenina_report.exports.json_lines import make_schema, published_schema
from karenina_report.exports.junit import JUNIT
from karenina_report.exports.markdown import MARKDOWN

SCHEMA = Path(__file__).parent / "vendor" / "junit-10.xsd"
RESULTS = [
    result("q1", True),
    result("q2", False, extracted={"gene": "a"}),
    result("q3", Outcome.PARSE_ERROR),
    result("q4", Outcome.SCORED, replicate=2),
    result("q6", Outcome.UNDECIDED, extracted={"day": "01/02/2024"}),
    result("q5", Outcome.ABSTAINED, model="other", answer="\x00\ud800</failure>]]>\x1b[31m\u202e"),
]


def written(exporter: Any, results: Sequence[VerificationResult]) -> str:
    file = io.BytesIO()
    exporter.write(
        ExportRequest(
            source=Path("r.jsonl"),
            results=results,
            tables=lambda name: result_table(results, name),
            table=None,
            warn=pytest.fail,
        ),
        file,
    )
    return file.getvalue().decode()


@pytest.mark.parametrize("results", [RESULTS, []])
def test_junit_follows_the_schema_of_jenkins(results: Sequence[VerificationResult]) -> None:
    schema = etree.XMLSchema(etree.parse(SCHEMA))

    schema.assertValid(etree.fromstring(written(JUNIT, results).encode()))


def test_junit_has_a_case_for_each_item() -> None:
    root = etree.fromstring(written(JUNIT, RESULTS).encode())
    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}

    assert cases == {"q1": [], "q2": ["failure"], "q3": ["error"], "q4 #2": [], "q6": ["error"], "q5": ["failure"]}
    assert [suite.get("name") for suite in root] == ["m judged by j", "other judged by j"]
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("6", "2", "2")


def test_junit_says_of_fields_without_a_value_what_they_compare() -> None:
    failed = result("q1", False, extracted={"gene": None})
    failed.template.field_results = {"gene": False, "cites": False}
    failed.template.parsed_gt_response = {"gene": "BCL2", "cites": True}
    (problem,) = etree.fromstring(written(JUNIT, [failed]).encode()).iter("failure")

    assert str(problem.text).splitlines()[2:] == [
        "Field gene: extracted None, truth 'BCL2'",
        "Field cites: compares the answer itself, truth True",
    ]


def test_markdown_has_rates_and_failed_items() -> None:
    text = written(MARKDOWN, RESULTS)

    assert "| m | j | 50.0% (1 of 2); 33.3% if the 1 undecided is wrong |" in text
    assert "Outcomes: 1 correct, 1 wrong, 1 abstained, 1 scored, 1 parse_error, 1 undecided" in text
    assert [line.split(" | ")[3] for line in text.splitlines() if line.startswith("| q")][1:] == [
        "wrong",
        "parse_error",
        "undecided",
        "abstained",
    ]


def test_markdown_holds_whole_errors() -> None:
    item = result("q1", Outcome.PARSE_ERROR)
    item.metadata.error = f"{'the server is down; ' * 20}use another"
    assert "use another |" in written(MARKDOWN, [item])


def test_markdown_names_the_models_and_replicates_of_failed_items_if_there_are_several() -> None:
    one, other = result("q1", False, model="m"), result("q1", False, model="n")
    assert "| question | outcome | reason |" in written(MARKDOWN, [one])
    text = written(MARKDOWN, [one, other])
    assert "| question | answering model | outcome | reason |\n|---|---|---|---|\n| q1 | m | wrong |" in text
    assert "| q1 | n | wrong |" in text
    text = written(MARKDOWN, [one, result("q1", False, model="m", judge="k")])
    assert "| question | judge | outcome | reason |" in text
    text = written(MARKDOWN, [result("q1", True), result("q1", False, replicate=2)])
    assert "| question | replicate | outcome | reason |\n|---|---|---|---|\n| q1 | 2 | wrong |" in text


def test_markdown_holds_no_markup_of_results() -> None:
    text = written(MARKDOWN, [result("<img src=x>|[a](b)`*", False)])

    assert "\\<img src=x\\>\\|\\[a\\](b)\\`\\*" in text


def test_the_schema_file_is_up_to_date() -> None:
    assert json.loads(published_schema()) == make_schema(), (
        "write it again: python -c 'import json; from karenina_report.exports.json_lines import make_schema; "
        "print(json.dumps(make_schema(), indent=2, ensure_ascii=False))' > "
        "plugins/report/src/karenina_report/result.schema.json"
    )
