"""Whole runs with rubrics: evaluation modes, the traits of a question, and the effects of failures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

import pytest

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResult
from karenina_core import plugins as plugin_room
from karenina_core.catalog import install_command
from karenina_core.data import rubrics
from karenina_core.errors import ConfigError
from karenina_core.models.ports import AgentReply, CallInfo, ErrorCategory, Message, PortError, ToolCall
from karenina_core.plan import PlanError
from karenina_core.plugins import GROUPS, Plugins
from karenina_testing import ScriptedModels

GENE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())
"""
DOI = rubrics.RegexRubricTrait(name="doi", pattern="doi:")
SAFE = rubrics.LLMRubricTrait(name="safe", description="It warns of side effects.")
TONE = rubrics.LLMRubricTrait(name="tone", kind="literal", classes={"rude": "It insults.", "kind": "It cares."})
FACTS = rubrics.MetricRubricTrait(name="facts", metrics=("recall",), tp_instructions=("is BCL2", "blocks apoptosis"))
WORDS = rubrics.CallableRubricTrait(
    name="words", source="def f(text):\n    return len(text.split())\n", kind="score", min_score=0, max_score=99
)
RISKS = rubrics.LLMRubricTrait(name="risks", summary="risks of a treatment")
ALL = (DOI, SAFE, TONE, FACTS, WORDS)


def judging(score: Any = True) -> ScriptedModels:
    """Names BCL2, says True of what is boolean, the last class of what has classes, and that no concept is present."""

    def one(schema: Mapping[str, Any]) -> Any:
        if "enum" in schema:
            return schema["enum"][-1]
        return {"boolean": score, "array": [], "string": "because"}[schema["type"]]

    def fill(_messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo) -> Mapping[str, Any]:
        if info.task == "parsing":
            return {"gene": "BCL2"}
        parts = schema["properties"]
        return {
            name: {key: one(inner) for key, inner in part["properties"].items()} if "properties" in part else one(part)
            for name, part in parts.items()
        }

    return ScriptedModels(say=lambda *_: "It is BCL2, see doi:10.1000/182.", fill=fill)


def benchmark(*traits: rubrics.RubricTrait, dynamic: Sequence[rubrics.RubricTrait] = ()) -> Benchmark:
    made = Benchmark.create(name="rubrics")
    made.add_question("Which gene?", "BCL2", GENE, rubric=traits or None, dynamic_rubric=dynamic or None)
    return made


def run(
    asked: Benchmark, models: ScriptedModels | None = None, plugins: Plugins | None = None, **more: Any
) -> VerificationResult:
    """Return the one result of a benchmark with one question."""
    room, models = plugins or Plugins.discover(), models or judging()
    room.register(models)
    settings = {"evaluation_mode": "rubric_only", "parsing_models": [models.model("j")], **more}
    answering = models.model("a", **settings.pop("answering", {}))
    with plugin_room.use_plugins(room):
        config = VerificationConfig(answering_models=[answering], **settings)
        (result,) = asked.run_verification(config, trust="all")
        return result


def test_rubric_only_scores_the_answer_without_the_template() -> None:
    models = judging()
    result = run(benchmark(*ALL), models)
    assert result.outcome is Outcome.SCORED
    assert result.template is not None
    assert result.template.template_verification_performed is False
    assert result.template.verify_result is None
    assert result.rubric is not None
    assert result.rubric.get_all_trait_scores() == {
        "safe": True,
        "tone": 1,
        "doi": True,
        "words": 5,
        "facts": {"recall": 0.0},
    }
    assert result.rubric.get_llm_trait_labels() == {"tone": "kind"}
    assert result.rubric.get_trait_by_name("words") == (5, "callable")
    assert result.rubric.metric_trait_confusion_lists == {
        "facts": {"tp": [], "tn": [], "fp": [], "fn": ["is BCL2", "blocks apoptosis"]}
    }
    assert result.deep_judgment_rubric is None
    assert result.evaluation_input == "It is BCL2, see doi:10.1000/182."
    assert {request.info.task for request in models.requests} == {"answer_generation", "rubric_evaluation"}


@pytest.mark.parametrize("mode", ["template_and_rubric", "template_only"])
def test_scores_do_not_change_the_verdict_of_a_template(mode: str) -> None:
    result = run(benchmark(*ALL), judging(score=False), evaluation_mode=mode)
    assert result.outcome is Outcome.CORRECT
    scores = None if result.rubric is None else result.rubric.llm_trait_scores
    assert scores == ({"safe": False, "tone": 1} if mode == "template_and_rubric" else None)


def test_a_result_survives_a_json_round_trip() -> None:
    result = run(benchmark(*ALL, dynamic=[RISKS]), evaluation_mode="template_and_rubric")
    assert VerificationResult.model_validate_json(result.model_dump_json()) == result


def test_calls_for_rubrics_are_counted_under_their_own_name() -> None:
    result = run(benchmark(*ALL, dynamic=[RISKS]))
    assert result.template is not None
    assert (result.template.usage_metadata or {})["rubric_evaluation"]["calls"] == 3


@pytest.mark.parametrize(("strategy", "calls"), [("batch", 1), ("sequential", 2)])
def test_the_strategy_reaches_the_judge(strategy: str, calls: int) -> None:
    models = judging()
    result = run(benchmark(SAFE, DOI, RISKS), models, rubric_evaluation_strategy=strategy)
    assert sum(request.port == "parser" for request in models.requests) == calls
    assert result.rubric is not None
    assert result.rubric.rubric_evaluation_strategy == strategy


def test_traits_without_a_judge_need_none() -> None:
    result = run(benchmark(DOI, WORDS), parsing_models=[])
    assert result.rubric is not None
    assert result.rubric.get_all_trait_scores() == {"doi": True, "words": 5}


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (benchmark(DOI, SAFE), "safe"),
        (benchmark(FACTS), "facts"),
        (benchmark(DOI, dynamic=[rubrics.RegexRubricTrait(name="dose", pattern="mg", summary="a dose")]), "dose"),
    ],
    ids=["llm", "metric", "dynamic"],
)
def test_judged_traits_without_a_judge_are_refused_before_any_call(asked: Benchmark, named: str) -> None:
    models = judging()
    with pytest.raises(ConfigError, match=rf"\({named}\).*parsing_models"):
        run(asked, models, parsing_models=[])
    assert models.requests == []


def test_benchmark_and_question_traits_are_scored_together() -> None:
    asked = benchmark(SAFE, dynamic=[RISKS])
    asked.global_rubric = rubrics.Rubric.of(DOI)
    result = run(asked)
    assert result.rubric is not None
    assert result.rubric.get_all_trait_scores() == {"doi": True, "safe": True, "risks": True}
    assert result.rubric.dynamic_rubric_promoted_traits == ["risks"]
    assert result.rubric.dynamic_rubric_skipped_traits == {}


def test_only_the_traits_that_are_named_are_scored() -> None:
    result = run(benchmark(*ALL, dynamic=[RISKS]), rubric_trait_names=["doi", "tone"])
    assert result.rubric is not None
    assert result.rubric.get_all_trait_scores() == {"tone": 1, "doi": True}


def test_a_name_in_both_rubrics_is_refused_before_any_call() -> None:
    asked, models = benchmark(SAFE), judging()
    asked.dynamic_rubric = rubrics.DynamicRubric.of(SAFE)
    with pytest.raises(ConfigError, match="'safe' is used both in the rubric and in the dynamic rubric"):
        run(asked, models)
    assert models.requests == []


def test_traits_without_a_scoring_plugin_are_a_plan_error() -> None:
    found = [
        point
        for group in GROUPS
        for point in entry_points(group=group)
        if not point.value.startswith(("karenina_rubric", "karenina_deep_judgment", "karenina_agentic"))
    ]
    models = judging()
    cure = re.escape(f"{install_command('karenina-rubric')}, or set evaluation_mode")
    with pytest.raises(PlanError, match=rf"rubric traits \(doi\).*: {cure}"):
        run(benchmark(DOI), models, Plugins.discover(found=found))
    assert models.requests == []


@pytest.mark.parametrize("strategy", ["batch", "sequential"])
def test_failure_of_one_trait_leaves_the_others(strategy: str) -> None:
    broken = [
        rubrics.CallableRubricTrait(name="gone", function="no_such_package_anywhere:f"),
        rubrics.RegexRubricTrait(name="endless", pattern=r"^(\w|\w\w)+$"),
    ]
    models = judging()
    usual = models.fill

    def fill(messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo) -> Any:
        if "Expected things" in messages[-1].content:
            raise PortError("the judge is away", category=ErrorCategory.PERMANENT)
        given = dict(usual(messages, schema, info))  # type: ignore[call-overload]  # it returns a mapping
        if "tone" in given:
            given["tone"] = {"reasoning": "r", "score": "none of them"}
        if schema["properties"].get("score", {}).get("enum"):
            given["score"] = "none of them"
        return given

    models.fill = fill
    models.say = lambda *_: "a" * 200 + "!"
    result = run(benchmark(*ALL, *broken), models, rubric_evaluation_strategy=strategy)
    assert result.outcome is Outcome.RUBRIC_ERROR
    assert result.metadata.completed_without_errors
    assert result.rubric is not None
    assert result.rubric.get_all_trait_scores() == {
        "safe": True,
        "tone": None,
        "doi": False,
        "endless": None,
        "words": 1,
        "gone": None,
        "facts": None,
    }
    for name, says in SAYS.items():
        assert says in (result.rubric.trait_errors or {})[name]
    assert set(result.rubric.trait_errors or {}) == set(SAYS)


SAYS = {
    "tone": "must be one of",
    "endless": "did not finish",
    "gone": "install the package",
    "facts": "the judge is away",
}

CALL = ToolCall("c1", "look_up", {"gene": "BCL2"})
BROKEN_OFF = AgentReply((Message.assistant("see doi:10.1", [CALL]),), limit_reached=True)
MCP = {"mcp_urls_dict": {"genes": "http://localhost:1/mcp"}}


@pytest.mark.parametrize(("full", "scores"), [(True, {"doi": True}), (False, None)])
def test_an_interrupted_conversation_is_scored_completely_or_not_at_all(full: bool, scores: Any) -> None:
    models = ScriptedModels(act=lambda *_: BROKEN_OFF)
    result = run(benchmark(DOI), models, answering=MCP, use_full_trace_for_rubric=full)
    assert (result.rubric.regex_trait_scores if result.rubric else None) == scores
    record = next(one for one in result.stages if one.name == "RubricEvaluation")
    assert (record.status, record.reason is None) == (("ran", True) if full else ("skipped", False))
    assert result.outcome is Outcome.AUTO_FAILED


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("template_only", 'the rubric traits of 2 of 3 questions are not scored because .*"template_and_rubric"'),
        ("template_and_rubric", None),
        (
            "rubric_only",
            "1 of 3 questions have no rubric traits, and evaluation_mode rubric_only evaluates",
        ),
    ],
)
def test_traits_outside_the_evaluation_mode_are_warned_about(
    mode: str, says: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    asked = benchmark(DOI)
    asked.add_question("Which drug?", "venetoclax", GENE, dynamic_rubric=[RISKS])
    asked.add_question("Which disease?", "CLL", GENE)
    models = judging()
    plugins = Plugins.discover()
    plugins.register(models)
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            answering_models=[models.model("a")], parsing_models=[models.model("j")], evaluation_mode=mode
        )
        asked.run_verification(config)
    warned = [line for line in caplog.messages if "rubric trait" in line]
    assert len(warned) == (says is not None)
    assert says is None or re.match(says, warned[0])


def test_the_mode_template_and_rubric_needs_a_trait(caplog: pytest.LogCaptureFixture) -> None:
    run(benchmark(), judging(), evaluation_mode="template_and_rubric")
    assert [line for line in caplog.messages if "no question has a rubric trait" in line]
