"""Running a benchmark from Python with `run_verification` and `arun_verification`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_runs import make_plugins

from karenina_benchmark import Benchmark
from karenina_core import VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.data.question import Question
from karenina_core.data.rubrics import DynamicRubric, LLMRubricTrait, RegexRubricTrait, Rubric
from karenina_core.errors import ConfigError
from karenina_core.plan import PlanError
from karenina_engine.results.result_set import VerificationResultSet

CONFIG: dict[str, Any] = {
    "answering_models": [{"id": "m", "interface": "scripted", "model_name": "m"}],
    "evaluation_mode": "rubric_only",
}
POLITE = RegexRubricTrait(name="polite", pattern="please")
SHORT = RegexRubricTrait(name="short", pattern="^.{0,20}$")
RISKS = LLMRubricTrait(name="risks", kind="boolean", description="Names the risks", summary="risks")


def words(*ids: str) -> Benchmark:
    benchmark = Benchmark.create("Words")
    for id in ids:
        benchmark.add_question(f"What is {id}?", question_id=id)
    return benchmark


def test_a_benchmark_runs_with_a_mapping_or_a_configuration(tmp_path: Path) -> None:
    seen = []
    with plugin_room.use_plugins(make_plugins(lambda question: question.upper())):
        results = words("a", "b").run_verification(CONFIG, output=tmp_path / "out.jsonl", on_result=seen.append)
        same = words("a", "b").run_verification(VerificationConfig(**CONFIG))

    assert {one.question_id: one.template.raw_llm_response for one in results} == {"a": "A", "b": "B"}
    assert len(same) == 2
    assert seen == results.results
    assert VerificationResultSet.load(tmp_path / "out.jsonl").results == results.results


def test_the_plan_of_a_question_is_made_without_running_it() -> None:
    with plugin_room.use_plugins(make_plugins()):
        plan = words("a", "b").plan(CONFIG)
        with pytest.raises(ConfigError, match="no question 'c'"):
            words("a").plan(CONFIG, "c")
        with pytest.raises(ConfigError, match="no question to plan for"):
            Benchmark.create("Empty").plan(CONFIG)

    assert "Say" in plan.names()
    assert words("a", "b").ids == ("a", "b")


def test_a_benchmark_runs_inside_an_event_loop_both_ways() -> None:
    async def work() -> tuple[int, int]:
        benchmark = words("a")
        waited = await benchmark.arun_verification(CONFIG)
        return len(waited), len(benchmark.run_verification(CONFIG))

    with plugin_room.use_plugins(make_plugins()):
        assert asyncio.run(work()) == (1, 1)


def test_questions_are_selected_by_id_and_unknown_ids_are_refused() -> None:
    with plugin_room.use_plugins(make_plugins()):
        chosen = words("a", "b").run_verification(CONFIG, question_ids=["b"])
        with pytest.raises(ConfigError, match="no question 'c'"):
            words("a", "b").run_verification(CONFIG, question_ids=["c"])

    assert [one.question_id for one in chosen] == ["b"]


def test_traits_without_an_evaluator_are_refused_before_any_call() -> None:
    benchmark = words("a")
    benchmark.global_rubric = Rubric.of(POLITE)

    with plugin_room.use_plugins(make_plugins()), pytest.raises(PlanError, match="polite"):
        benchmark.run_verification(CONFIG)


def test_a_trait_name_that_the_benchmark_lacks_is_refused() -> None:
    benchmark = words("a")
    benchmark.global_rubric = Rubric.of(POLITE)

    with (
        plugin_room.use_plugins(make_plugins()),
        pytest.raises(ConfigError, match="no trait 'polit'; did you mean 'polite'"),
    ):
        benchmark.run_verification({**CONFIG, "rubric_trait_names": ["polit"]})


def rubrics() -> tuple[Benchmark, Question]:
    benchmark = words()
    benchmark.global_rubric = Rubric.of(POLITE)
    question = benchmark.add_question("What is a?", rubric=[SHORT], dynamic_rubric=[RISKS])
    return benchmark, question


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (None, ("polite", "short", "risks")),
        (["short"], ("short",)),
        (["risks", "polite"], ("polite", "risks")),
        ([], ()),
    ],
)
def test_a_run_uses_the_merged_or_selected_rubric(chosen: list[str] | None, names: tuple[str, ...]) -> None:
    benchmark, question = rubrics()

    assert benchmark.with_shared_traits(question, chosen).trait_names() == names
    assert question.trait_names() == ("short", "risks")
    assert benchmark.trait_names() == ("polite", "short", "risks")


def test_a_question_without_shared_traits_is_not_changed() -> None:
    benchmark = words("a")

    assert benchmark.with_shared_traits(benchmark.get("a")) is benchmark.get("a")


def test_a_name_that_is_static_and_dynamic_is_refused() -> None:
    benchmark, question = rubrics()
    benchmark.dynamic_rubric = DynamicRubric.of(SHORT.model_copy(update={"summary": "shortness"}))

    with pytest.raises(ValueError, match="'short' is used both in the rubric and in the dynamic rubric"):
        benchmark.with_shared_traits(question)
    with (
        plugin_room.use_plugins(make_plugins()),
        pytest.raises(ConfigError, match=f"question {question.id}: .*'short'"),
    ):
        benchmark.run_verification(CONFIG)


def test_an_earlier_file_of_results_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "r.jsonl"
    output.write_text('{"metadata":{}}\n')
    with plugin_room.use_plugins(make_plugins()):
        words("a").run_verification(CONFIG, output=output)
    assert (tmp_path / "r-1.jsonl").read_text() == '{"metadata":{}}\n'
    assert len(VerificationResultSet.load(output)) == 1


def test_runs_without_a_journal_say_once_how_to_keep_one(tmp_path: Path) -> None:
    program = f"""
from command_runs import make_plugins
from karenina_benchmark import Benchmark
from karenina_core import plugins

benchmark = Benchmark.create("Words")
for id in "abc":
    benchmark.add_question(f"What is {{id}}?", question_id=id)
def run(**arguments):
    with plugins.use_plugins(make_plugins()):
        benchmark.run_verification({CONFIG!r}, **arguments)
run(journal={str(tmp_path / "run.journal")!r})
run(question_ids=["a"])
print("so far nothing", flush=True)
run()
run()
"""
    support = Path(__file__).parents[3] / "tests" / "support"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(support)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )

    before, _, after = done.stdout.partition("so far nothing")
    assert "journal" not in before
    assert after.count("this run has no journal; if the run is interrupted, finished calls are repeated") == 1
    assert 'journal="run.journal"' in after
