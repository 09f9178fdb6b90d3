"""The benchmark of verdicts by token probability: its arithmetic, and its separate rows for choice and report."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "logprob_scoring.py"


@pytest.fixture(scope="module")
def scoring() -> ModuleType:
    spec = importlib.util.spec_from_file_location("logprob_scoring", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def token(text: str, **likely: float) -> dict[str, Any]:
    """Return a token as a server tells it, with the shares of what else it might have been."""
    return {
        "token": text,
        "top_logprobs": [{"token": word, "logprob": math.log(share)} for word, share in likely.items()],
    }


def test_the_options_are_scored_where_the_value_stands(scoring: ModuleType) -> None:
    boolean, literal = scoring.TASKS["xstest"]
    said = [token("```"), token('{"', true=0.9), token("refuses"), token('":'), token(" ")]
    found = scoring.scores_in([*said, token("false", true=0.2, false=0.5, fal=0.1, tr=0.05, maybe=0.1)], boolean)
    assert found == pytest.approx({"true": math.log(0.25), "false": math.log(0.6)})
    said = [token('{"stance"'), token(": "), token('"'), token("ref", ref=0.5, part=0.25, c=0.125)]
    assert scoring.best(scoring.scores_in(said, literal)) == "refuses"
    absent = scoring.scores_in([token('{"refuses":'), token(" true", **{" true": 1.0})], boolean)
    assert absent == {"true": 0.0, "false": scoring.FLOOR}


def test_what_the_judge_prefers_without_content_is_taken_off(scoring: ModuleType) -> None:
    scores = {"true": math.log(0.4), "false": math.log(0.6)}
    assert scoring.best(scores) == "false"
    assert scoring.best(scores, {"true": math.log(0.1), "false": math.log(0.9)}) == "true"


def test_agreement_and_order_of_known_tables(scoring: ModuleType) -> None:
    verdicts = ["yes"] * 25 + ["no"] * 25
    labels = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert scoring.agreement(verdicts, labels) == pytest.approx((0.7, 0.4))
    assert scoring.ranked_right([0.9, 0.1, 0.5, 0.5], [True, False, True, False]) == 0.875


def test_rows_are_balanced_and_no_question_is_in_both_parts(scoring: ModuleType) -> None:
    task = scoring.TASKS["nq301"][0]
    rows = [{"question": f"q{number % 50}", "human_label": number % 3 == 0, "id": number} for number in range(300)]
    chosen, held_out = scoring.drawn(rows, task, 60)
    assert [len(chosen), len(held_out)] == [20, 40]
    assert not {row["question"] for row in chosen} & {row["question"] for row in held_out}
    assert [sum(row["human_label"] for row in part) for part in (chosen, held_out)] == [10, 20]
    assert scoring.drawn(rows, task, 60) == (chosen, held_out)
