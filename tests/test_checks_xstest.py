"""The abstention check on recorded answers: a judge that replays recorded labels, compared with human labels."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResult
from karenina_core import plugins as plugin_room
from karenina_core.models.ports import CallInfo
from karenina_core.plugins import Plugins
from karenina_testing import ScriptedModels

ROWS = Path(__file__).parents[2] / "shared" / "data" / "xstest.jsonl"
ANSWERED = "1_full_compliance"
REFUSED = {"2_full_refusal", "3_partial_refusal"}
ANYTHING = """
class Answer(BaseAnswer):
    said: bool = VerifiedField(description="something is said", ground_truth=True, verify_with=TraceLength(min=0))
"""

pytestmark = pytest.mark.skipif(not ROWS.is_file(), reason=f"the recorded data are not there: no file {ROWS}")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Return the recorded rows."""
    return [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def results(rows: list[dict[str, Any]]) -> dict[str, VerificationResult]:
    """Return the result of every row by its id; an invalid label is the judge's reply itself."""
    by_id = {row["id"]: row for row in rows}

    def judge(_messages: object, _schema: object, info: CallInfo) -> Mapping[str, Any] | str:
        label: str = by_id[info.question_id]["gpt4_judge"]
        return {"reasoning": label, "abstained": label in REFUSED} if label in {ANSWERED, *REFUSED} else label

    models = ScriptedModels(say=lambda _messages, info: by_id[info.question_id]["response"], fill=judge)
    plugins = Plugins.discover()
    plugins.register(models)
    benchmark = Benchmark.create(name="xstest")
    for row in rows:
        benchmark.add_question(row["question"], "", ANYTHING, question_id=row["id"])
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            answering_models=[models.model("a")], parsing_models=[models.model("j")], abstention_enabled=True
        )
        return {result.question_id: result for result in benchmark.run_verification(config)}


def malformed(row: Mapping[str, Any]) -> bool:
    return row["gpt4_judge"] not in {ANSWERED, *REFUSED}


def agreement(pairs: Iterable[tuple[bool, bool]]) -> tuple[float, float]:
    """Accuracy, and Cohen's kappa from the four cells of the table of two raters."""
    cells = Counter(pairs)
    both, first, second, neither = (
        cells[pair] for pair in [(True, True), (True, False), (False, True), (False, False)]
    )
    expected = (both + first) * (first + neither) + (both + second) * (second + neither)
    return (both + neither) / cells.total(), 2 * (both * neither - first * second) / expected


def test_every_row_ends_in_a_result_without_an_error(
    rows: list[dict[str, Any]], results: dict[str, VerificationResult]
) -> None:
    assert set(results) == {row["id"] for row in rows}
    assert [result.why() for result in results.values() if not result.metadata.completed_without_errors] == []


def test_malformed_labels_are_not_performed_and_the_others_are(
    rows: list[dict[str, Any]], results: dict[str, VerificationResult]
) -> None:
    unjudged = {row["id"] for row in rows if malformed(row)}
    assert unjudged
    assert {id for id, one in results.items() if not one.template.abstention_check_performed} == unjudged
    assert {results[id].template.abstention_detected for id in unjudged} == {None}


def test_nothing_is_failed_but_what_the_judge_called_a_refusal(
    rows: list[dict[str, Any]], results: dict[str, VerificationResult]
) -> None:
    expected = {row["id"]: Outcome.ABSTAINED if row["gpt4_judge"] in REFUSED else Outcome.CORRECT for row in rows}
    assert {id: result.outcome for id, result in results.items()} == expected


def test_a_malformed_label_is_requested_twice(
    rows: list[dict[str, Any]], results: dict[str, VerificationResult]
) -> None:
    calls = {id: record.calls for id, one in results.items() if (record := one.stage("AbstentionCheck"))}
    assert calls == {row["id"]: 2 if malformed(row) else 1 for row in rows}


def test_agreement_with_people_is_that_of_the_recorded_labels(
    rows: list[dict[str, Any]], results: dict[str, VerificationResult], capsys: pytest.CaptureFixture[str]
) -> None:
    people = {row["id"]: row["human_label"] in REFUSED for row in rows}
    found = agreement(
        (result.template.abstention_detected, people[id])
        for id, result in results.items()
        if result.template.abstention_detected is not None
    )
    judged = [row for row in rows if not malformed(row)]
    assert found == agreement((row["gpt4_judge"] in REFUSED, row["human_label"] in REFUSED) for row in judged)
    assert found == pytest.approx(of_the_file(judged))
    with capsys.disabled():
        accuracy, kappa = found
        line = f"{len(rows)} rows, {len(judged)} judged, {len(rows) - len(judged)} not: {accuracy=:.3f} {kappa=:.3f}"
        print(f"\nabstention check against people: {line}")  # noqa: T201


def of_the_file(judged: list[dict[str, Any]]) -> tuple[float, float]:
    """Accuracy and kappa in the words of the definition: agreement beyond chance, out of what chance leaves."""
    count = len(judged)
    same = sum((row["gpt4_judge"] == ANSWERED) == (row["human_label"] == ANSWERED) for row in judged) / count
    by_judge = sum(row["gpt4_judge"] == ANSWERED for row in judged) / count
    by_people = sum(row["human_label"] == ANSWERED for row in judged) / count
    chance = by_judge * by_people + (1 - by_judge) * (1 - by_people)
    return same, (same - chance) / (1 - chance)
