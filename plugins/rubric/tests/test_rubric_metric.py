"""Metric traits: the confusion lists, the metrics that follow from them, and what the judge is shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rubric_runs import score, scripted_replies

from karenina_core.data.rubrics import MetricRubricTrait
from karenina_rubric.metric_traits import Confusion
from karenina_rubric.prompts import METRIC

FACTS = ("blocks apoptosis", "sits in mitochondria", "binds BAX")
LIES = ("is a kinase", "is a virus")
TP_ONLY = MetricRubricTrait(name="facts", metrics=("precision", "recall", "f1"), tp_instructions=FACTS)
MATRIX = MetricRubricTrait(
    name="facts",
    evaluation_mode="full_matrix",
    metrics=("precision", "recall", "f1", "specificity", "accuracy"),
    tp_instructions=FACTS,
    tn_instructions=LIES,
)


def found_by(trait: MetricRubricTrait, *said: dict[str, Any]) -> Any:
    models = scripted_replies(*({"reasoning": "r", **one} for one in said))
    found = score(trait, models=models)
    return found, models


@pytest.mark.parametrize(
    ("said", "metrics", "lists"),
    [
        (
            {"said": [1, 3], "other_things_said": ["It was found in 1985.", "it was  found in 1985."]},
            {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3},
            {"tp": [FACTS[0], FACTS[2]], "fn": [FACTS[1]], "fp": ["It was found in 1985."], "tn": []},
        ),
        (
            {"said": [2, 2, 1, 3], "other_things_said": []},
            {"precision": 1.0, "recall": 1.0, "f1": 1.0},
            {"tp": list(FACTS), "fn": [], "fp": [], "tn": []},
        ),
        (
            {"said": [], "other_things_said": [" ", "None", "n/a", "none.", "\u2013"]},
            {"precision": 0.0, "recall": 0.0, "f1": 0.0},
            {"tp": [], "fn": list(FACTS), "fp": [], "tn": []},
        ),
    ],
    ids=["some", "all", "none"],
)
def test_without_unwanted_things_the_rest_of_the_answer_is_false(
    said: dict[str, Any], metrics: dict[str, float], lists: dict[str, list[str]]
) -> None:
    found, _ = found_by(TP_ONLY, said)
    assert found.field("metric_trait_scores") == {"facts": pytest.approx(metrics)}
    assert found.field("metric_trait_confusion_lists") == {"facts": lists}


def test_with_unwanted_things_there_are_true_negatives() -> None:
    found, _ = found_by(MATRIX, {"said": [3], "unwanted_said": [2]})
    assert found.field("metric_trait_confusion_lists") == {
        "facts": {"tp": [FACTS[2]], "fn": [FACTS[0], FACTS[1]], "fp": [LIES[1]], "tn": [LIES[0]]}
    }
    assert found.field("metric_trait_scores")["facts"] == pytest.approx(
        {"precision": 1 / 2, "recall": 1 / 3, "f1": 2 / 5, "specificity": 1 / 2, "accuracy": 2 / 5}
    )


def test_only_the_metrics_that_the_trait_names_are_reported() -> None:
    found, _ = found_by(TP_ONLY.model_copy(update={"metrics": ("recall",)}), {"said": [1], "other_things_said": []})
    assert found.field("metric_trait_scores") == {"facts": {"recall": pytest.approx(1 / 3)}}


@pytest.mark.parametrize(("once", "precision"), [(True, 1 / 2), (False, 3 / 5)])
def test_repetitions_count_where_the_trait_says_so(once: bool, precision: float) -> None:
    trait = TP_ONLY.model_copy(update={"repeated_extraction": once, "metrics": ("precision",)})
    found, _ = found_by(trait, {"said": [1, 1, 1], "other_things_said": ["It is old.", "It is old."]})
    assert found.field("metric_trait_scores") == {"facts": {"precision": pytest.approx(precision)}}


@pytest.mark.parametrize("wrong", [{"said": [4]}, {"said": [0]}, {"said": None}], ids=str)
def test_a_number_that_no_thing_has_is_asked_for_again(wrong: dict[str, Any]) -> None:
    found, models = found_by(TP_ONLY, {"other_things_said": [], **wrong}, {"said": [1], "other_things_said": []})
    assert found.field("metric_trait_confusion_lists")["facts"]["tp"] == [FACTS[0]]
    assert "said " in models.requests[1].messages[-1].content


def test_a_judge_that_keeps_failing_fails_the_trait() -> None:
    found, _ = found_by(TP_ONLY, *[{"said": [9], "other_things_said": []}] * 2)
    assert found.field("metric_trait_scores") == {"facts": None}
    assert found.field("metric_trait_confusion_lists") is None
    assert "numbered from 1 to 3" in found.field("trait_errors")["facts"]


def test_the_task_declares_that_instructions_show_the_truth() -> None:
    _, models = found_by(MATRIX, {"said": [], "unwanted_said": []})
    assert [thing for thing in (*FACTS, *LIES) if thing not in models.requests[0].text] == []
    assert METRIC.shows_truth
    assert list((models.requests[0].schema or {})["properties"]) == ["reasoning", "said", "unwanted_said"]


def test_instructions_of_the_user_reach_the_judge() -> None:
    models = scripted_replies({"reasoning": "r", "said": [], "other_things_said": []})
    score(TP_ONLY, models=models, prompt_config={"rubric_evaluation": "Be strict."})
    assert "Be strict." in models.requests[0].messages[0].content


SOME = st.lists(st.text("abc", max_size=3), max_size=6).map(tuple)


@given(SOME, SOME, SOME, SOME)
def test_metrics_are_bounded_and_f1_is_a_mean(
    tp: tuple[str, ...], fp: tuple[str, ...], fn: tuple[str, ...], tn: tuple[str, ...]
) -> None:
    lists = Confusion(tp, fp, fn, tn)
    values = {name: lists.metric(name) for name in ("precision", "recall", "f1", "specificity", "accuracy")}
    assert all(0 <= value <= 1 for value in values.values())
    low, high = sorted((values["precision"], values["recall"]))
    if tp:
        assert low - 1e-9 <= values["f1"] <= high + 1e-9


def test_sodium_is_another_thing_that_a_response_says() -> None:
    found, _ = found_by(TP_ONLY, {"said": [1], "other_things_said": ["Na", "NA"]})
    assert found.field("metric_trait_confusion_lists")["facts"]["fp"] == ["Na"]
