"""Runs that extend a journal: only missing calls are made."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_runs import registered

from karenina import Benchmark
from karenina_testing import ScriptedModels

TEMPLATE = """
class Answer(BaseAnswer):
    value: str = VerifiedField(description="The value", ground_truth="v1", verify_with=ExactMatch())
"""


@pytest.fixture
def models() -> Iterator[ScriptedModels]:
    scripted = ScriptedModels(
        say=lambda messages, info: f"{messages[0].content} answers {info.question_id} for the {info.replicate}. time.",
        fill=lambda _messages, _schema, info: {"value": f"v{info.replicate}"},
    )
    with registered(scripted):
        yield scripted


def benchmark(*ids: str) -> Benchmark:
    made = Benchmark.create("values")
    for id in ids:
        made.add_question(f"What is {id}?", None, TEMPLATE, question_id=id)
    return made


def config(models: ScriptedModels, answering: str = "a", judges: str = "j", replicates: int = 1) -> dict[str, Any]:
    return {
        "answering_models": [models.model(id, system_prompt=id) for id in answering],
        "parsing_models": [models.model(id) for id in judges],
        "replicate_count": replicates,
    }


@pytest.mark.parametrize(
    ("ids", "more", "answers", "judgements"),
    [
        ("xyz", {}, {"z": 1}, {"z": 1}),
        ("xy", {"answering": "ab"}, {"x": 1, "y": 1}, {"x": 1, "y": 1}),
        ("xy", {"judges": "jk"}, {}, {"x": 1, "y": 1}),
        ("xy", {"replicates": 3}, {"x": 2, "y": 2}, {"x": 2, "y": 2}),
        ("xyz", {"answering": "ab", "judges": "jk"}, {"x": 1, "y": 1, "z": 2}, {"x": 3, "y": 3, "z": 4}),
    ],
    ids=["questions", "models", "judges", "replicates", "all of it"],
)
def test_only_what_is_missing_is_asked(
    tmp_path: Path,
    models: ScriptedModels,
    ids: str,
    more: dict[str, Any],
    answers: dict[str, int],
    judgements: dict[str, int],
) -> None:
    journal = tmp_path / "run.journal"
    first = benchmark("x", "y").run_verification(config(models), journal=journal)
    models.requests.clear()
    whole = benchmark(*ids).run_verification(config(models, **more), journal=journal)
    assert Counter(one.info.question_id for one in models.requests if one.port == "llm") == answers
    assert Counter(one.info.question_id for one in models.requests if one.port == "parser") == judgements
    kept = {one.item: one.metadata.result_id for one in first}
    assert {one.item: one.metadata.result_id for one in whole if one.item in kept} == kept
    per_question = len(more.get("answering", "a")) * len(more.get("judges", "j")) * more.get("replicates", 1)
    assert len(whole) == len(ids) * per_question


def test_fewer_replicates_are_the_first_ones(tmp_path: Path, models: ScriptedModels) -> None:
    journal = tmp_path / "run.journal"
    benchmark("x").run_verification(config(models, replicates=3), journal=journal)
    models.requests.clear()
    (first,) = benchmark("x").run_verification(config(models), journal=journal)
    assert (first.metadata.replicate, first.template.raw_llm_response) == (1, "a answers x for the 1. time.")
    assert not models.requests
