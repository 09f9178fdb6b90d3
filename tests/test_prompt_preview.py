"""`karenina prompts` prints exactly the requests of a run, and sends none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from servers import RecordingServer, recording_server
from typer.testing import CliRunner

from karenina import Benchmark
from karenina_cli.app import build_app
from karenina_core import plugins as plugin_room
from karenina_core.data.rubrics import LLMRubricTrait, MetricRubricTrait
from karenina_core.plugins import Plugins
from karenina_core.stages.stage import registered_stages
from karenina_engine.offline.prompt_preview import example_for_schema

ANSWER = "It is BCL2, which keeps cells alive."
TEMPLATE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())
    sure: bool = VerifiedField(description="Whether it is sure", ground_truth=True, verify_with=BooleanMatch())
    length: int = VerifiedField(description="Residues", ground_truth=239, verify_with=NumericExact())
"""
BOTH = {"evaluation_mode": "template_and_rubric"}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "instructed": {"prompt_config": {"parsing": "Genes are in capitals.", "generation": "Be brief."}},
    "checks": {"abstention_enabled": True, "sufficiency_enabled": True},
    "examples": {"few_shot_config": {"mode": "all"}},
    "deep judgment": {"deep_judgment_mode": "full"},
    "rubric": BOTH,
    "sequential rubric": {**BOTH, "rubric_evaluation_strategy": "sequential"},
    "rubric with deep judgment": {**BOTH, "deep_judgment_rubric_mode": "enable_all"},
    "rubric alone": {"evaluation_mode": "rubric_only"},
}


def installed(names: dict[str, Any]) -> bool:
    from karenina_core.config import all_settings

    return set(names) <= set(all_settings()) and (
        "evaluation_mode" not in names
        or "RubricEvaluation" in {one.stage.name for one in registered_stages(plugin_room.active_plugins())}
    )


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    """Return a file with one question that has everything."""
    made = Benchmark.create(name="genes")
    made.add_question(
        "Which gene?",
        "BCL2",
        TEMPLATE,
        question_id="gene",
        few_shot_examples=[{"question": "Which protein?", "answer": "P53"}],
        rubric=[
            LLMRubricTrait(name="clear", kind="boolean", description="It is clear."),
            MetricRubricTrait(
                name="facts", evaluation_mode="tp_only", metrics=("recall",), tp_instructions=("names BCL2",)
            ),
        ],
        dynamic_rubric=[LLMRubricTrait(name="risks", kind="score", description="Names risks", summary="risks")],
    )
    made.save(tmp_path / "genes.jsonld")
    return tmp_path / "genes.jsonld"


def reply(body: dict[str, Any]) -> str:
    """Return the texts of the preview's placeholders."""
    form = body.get("response_format")
    if form is None:
        return ANSWER
    schema = form["json_schema"]["schema"]
    return example_for_schema(schema, ANSWER, yes="abstained" not in schema["properties"])


def prompts(*arguments: str | Path) -> dict[str, Any]:
    with plugin_room.use_plugins(Plugins.discover()):
        done = CliRunner(env={"COLUMNS": "400"}).invoke(
            build_app(), ["prompts", *map(str, arguments), "--json"], catch_exceptions=False
        )
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def body_of(seen: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(seen[seen.index("\n{") :])
    return found


def as_sent(messages: list[dict[str, Any]], schema: Any) -> str:
    return json.dumps([messages, schema], sort_keys=True)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_what_is_printed_is_what_a_server_gets(name: str, benchmark: Path, tmp_path: Path) -> None:
    values = CONFIGURATIONS[name]
    if not installed(values):
        pytest.skip("the plugin is not installed")
    with recording_server(reply) as server:
        config = configuration(tmp_path, server, values)
        printed = prompts(benchmark, "--config", config, "--answer", ANSWER)
        assert server.seen == []
        Benchmark.load(benchmark).run_verification(json.loads(config.read_text("utf-8")))
        sent = [body_of(one) for one in server.seen]
    assert printed["failed"] == []
    assert sorted(as_sent(one["messages"], one["schema"]) for one in printed["prompts"]) == sorted(
        as_sent(body["messages"], body.get("response_format", {}).get("json_schema", {}).get("schema")) for body in sent
    )


def configuration(folder: Path, server: RecordingServer, values: dict[str, Any]) -> Path:
    """Return a configuration file with models of the server."""
    model = {"interface": "openai", "model_name": "m", "endpoint_base_url": server.url, "endpoint_api_key": "k"}
    file = folder / "config.json"
    models = {"answering_models": [{"id": "a", **model}], "parsing_models": [{"id": "j", **model}]}
    file.write_text(json.dumps({**models, **values}), "utf-8")
    return file


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_truth_is_only_in_requests_of_tasks_that_declare_it(name: str, benchmark: Path, tmp_path: Path) -> None:
    values = CONFIGURATIONS[name]
    if not installed(values):
        pytest.skip("the plugin is not installed")
    config = tmp_path / "config.json"
    config.write_text(json.dumps(values), "utf-8")
    for one in prompts(benchmark, "--config", config)["prompts"]:
        assert one["task"] is not None, one
        text = json.dumps([one["messages"], one["schema"]])
        shown = "BCL2" in text or "P53" in text
        assert shown == one["shows_truth"], (one["stage"], one["task"])


def test_metric_traits_and_examples_are_marked_as_showing_truth(benchmark: Path) -> None:
    shown = prompts(
        benchmark, "--set", "evaluation_mode=template_and_rubric", "--set", 'few_shot_config={"mode":"all"}'
    )
    assert [one["task"] for one in shown["prompts"] if one["shows_truth"]] == ["few_shot_generation", "rubric_metric"]


@pytest.mark.skipif(
    not installed({"deep_judgment_rubric_mode": "", "evaluation_mode": ""}), reason="the plugins are not installed"
)
def test_a_task_is_its_owners_whichever_stage_asks(benchmark: Path) -> None:
    both = ("--set", "evaluation_mode=rubric_only", "--set", "deep_judgment_rubric_mode=enable_all")
    owners = {(one["stage"], one["task"]): one["distribution"] for one in prompts(benchmark, *both)["prompts"]}
    assert owners["RubricEvaluation", "deep_judgment"] == "karenina-deep-judgment"
    assert owners["RubricEvaluation", "rubric_metric"] == "karenina-rubric"


DATES = """
from typing import Literal
class Answer(BaseAnswer):
    day: date = VerifiedField(description="The day", ground_truth="1986-04-26", verify_with=ExactMatch())
    days: list[date] = VerifiedField(description="Days", ground_truth=["1986-04-26"], verify_with=SetContainment())
    near: Literal["1986-04-26", "1986-04-27"] = VerifiedField(
        description="Which", ground_truth="1986-04-26", verify_with=LiteralMatch()
    )
"""


@pytest.mark.parametrize("answer", [(), ("--answer", "I do not know."), ("--answer", "It was in 1986.")])
def test_a_question_with_dates_has_one_parsing_prompt(answer: tuple[str, ...], tmp_path: Path) -> None:
    made = Benchmark.create(name="days")
    made.add_question("When did it explode?", "26 April 1986", DATES, question_id="day")
    made.save(tmp_path / "days.jsonld")
    shown = prompts(tmp_path / "days.jsonld", "-a", "openai:m", "-j", "openai:j", *answer)
    assert shown["failed"] == []
    assert [one["task"] for one in shown["prompts"]] == ["generation", "parsing"]


def test_an_answer_that_is_recorded_is_asked_of_nobody(benchmark: Path, tmp_path: Path) -> None:
    recordings = tmp_path / "answers.jsonl"
    recordings.write_text('{"question_id": "gene", "answer": "BCL2"}\n', "utf-8")
    traces = json.dumps({"interface": "manual", "model_name": "m", "manual_traces": str(recordings)})
    shown = prompts(benchmark, "--answering", traces)
    assert [one["task"] for one in shown["prompts"]] == ["parsing"]
    assert (shown["unsaid"][0]["task"], shown["unsaid"][0]["why"]) == (
        "generation",
        "the model 'm' has recorded answers",
    )


def test_tasks_are_listed_with_owners_without_a_benchmark() -> None:
    tasks = prompts()["tasks"]
    declared = {task for one in registered_stages(plugin_room.active_plugins()) for task in one.stage.prompts}
    assert {(one["task"], one["instructions"], one["shows_truth"]) for one in tasks} == {
        (task.name, task.instructions, task.shows_truth) for task in declared
    }
    assert len(tasks) == len(declared)
    assert {one["distribution"] for one in tasks if one["task"] == "parsing"} == {"karenina-template"}
