"""Whole runs with deep judgment: the plan, the result, and the reasons to fail an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from gene_questions import GENE

from karenina import Benchmark
from karenina_core import Outcome, VerificationConfig, VerificationResult, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.catalog import install_command
from karenina_core.data.rubrics import LLMRubricTrait, RegexRubricTrait
from karenina_core.errors import ConfigError
from karenina_core.models.ports import CallInfo, Message
from karenina_core.plan import PlanError, make_plan
from karenina_core.plugins import GROUPS, Plugins
from karenina_core.stages.stage import registered_stages
from karenina_testing import ScriptedModels

RESPONSE = "The target of venetoclax is BCL2. Ask your doctor before you take it."
RAISING = """
class Answer(BaseAnswer):
    gene: str = Field(description="The gene")

    def verify(self):
        raise RuntimeError("no")
"""
SAFE = LLMRubricTrait(name="safe", description="Does it warn?")
CLEAR = LLMRubricTrait(name="clear", description="How clear is it?", kind="score", min_score=1, max_score=5)
DOI = RegexRubricTrait(name="doi", pattern="doi:")
QUOTES = {"gene": "The target of venetoclax is BCL2", "safe": "Ask your doctor", "clear": "The target of venetoclax"}


def judging(**quotes: str | None) -> ScriptedModels:
    """Return a judge that quotes these passages (None: nothing), says that the gene is BCL2, and scores every trait."""
    known = {**QUOTES, **quotes}

    def fill(messages: Sequence[Message], schema: Mapping[str, Any], _info: CallInfo) -> Mapping[str, Any] | str:
        found: dict[str, Any] = {}
        for name, part in schema["properties"].items():
            kind = json.dumps(part)
            if '"confidence"' in kind:
                text = known[name]
                found[name] = [{"text": text, "confidence": "high"}] if text is not None else []
            elif name == "score":
                found[name] = True if '"boolean"' in kind else 4
            elif '"risk"' in kind:
                found[name] = {"justification": "It is known.", "risk": "low"}
            else:
                found[name] = "BCL2"
        return found

    return ScriptedModels(
        say=lambda *_: RESPONSE, fill=fill, act=lambda *_: [Message.assistant("I looked: it is BCL2.")]
    )


def run(
    models: ScriptedModels, *, template: str | None = GENE, rubric: Any = None, trust: Any = None, **settings: Any
) -> Any:
    """Return the result of one question."""
    plugins = Plugins.discover()
    plugins.register(models)
    benchmark = Benchmark.create(name="deep")
    benchmark.add_question("Which gene?", "BCL2", template, rubric=rubric)
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            answering_models=[models.model("a")], parsing_models=[models.model("j")], **settings
        )
        (result,) = benchmark.run_verification(config, trust=trust)
    return result


def status(result: VerificationResult) -> dict[str, tuple[str, str | None]]:
    """Return the status of each stage, with the reason if it was skipped."""
    return {record.name: (record.status, record.reason) for record in result.stages}


# ---- what is planned

PLANS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"ParseTemplate"}),
    ({"deep_judgment_enabled": True}, {"DeepJudgmentParseTemplate", "DeepJudgmentAutoFail"}),
    ({"deep_judgment_mode": "full"}, {"DeepJudgmentParseTemplate", "DeepJudgmentAutoFail"}),
    ({"deep_judgment_mode": "reasoning_only"}, {"DeepJudgmentParseTemplate", "DeepJudgmentAutoFail"}),
    ({"deep_judgment_mode": "full", "evaluation_mode": "rubric_only"}, set()),
    ({"deep_judgment_rubric_mode": "enable_all"}, {"ParseTemplate"}),
    (
        {"deep_judgment_rubric_mode": "enable_all", "evaluation_mode": "template_and_rubric"},
        {"ParseTemplate", "DeepJudgmentRubricAutoFail"},
    ),
    (
        {"deep_judgment_rubric_mode": "use_checkpoint", "evaluation_mode": "rubric_only"},
        {"DeepJudgmentRubricAutoFail"},
    ),
]


@pytest.mark.parametrize(("settings", "expected"), PLANS)
def test_the_configuration_decides_which_stages_are_planned(settings: dict[str, Any], expected: set[str]) -> None:
    question = Benchmark.create(name="b").add_question("Which?", "BCL2", GENE, rubric=[SAFE])
    plan = make_plan(registered_stages(plugin_room.active_plugins()), VerificationConfig(**settings), question)
    mine = {"ParseTemplate", "DeepJudgmentParseTemplate", "DeepJudgmentAutoFail", "DeepJudgmentRubricAutoFail"}
    assert mine & set(plan.names()) == expected


def test_without_the_plugin_its_names_name_it() -> None:
    points = [
        point
        for group in GROUPS
        for point in entry_points(group=group)
        if not point.value.startswith("karenina_deep_judgment")
    ]
    with plugin_room.use_plugins(Plugins.discover(found=points)), pytest.raises(ConfigError) as caught:
        VerificationConfig(deep_judgment_rubric_mode="enable_all", deep_judgment_enabled=True)
    assert len(caught.value.problems) == 2
    assert all(install_command("karenina-deep-judgment") in problem for problem in caught.value.problems)


def test_an_unusable_search_tool_ends_the_run_before_any_call() -> None:
    models = judging()
    with pytest.raises(PlanError, match="unknown search tool 'libary'"):
        run(models, deep_judgment_enabled=True, deep_judgment_search_enabled=True, deep_judgment_search_tool="libary")
    assert models.requests == []


# ---- templates


def test_the_support_of_a_correct_value_is_in_the_result() -> None:
    result = run(judging(), deep_judgment_enabled=True)
    assert result.outcome is Outcome.CORRECT
    deep = result.deep_judgment
    assert (deep.deep_judgment_enabled, deep.deep_judgment_performed) == (True, True)
    assert deep.deep_judgment_stages_completed == ["excerpts", "reasoning", "parameters"]
    assert deep.deep_judgment_model_calls == 3
    (excerpt,) = deep.extracted_excerpts["gene"]
    assert result.evaluation_input[excerpt["start"] : excerpt["end"]] == QUOTES["gene"]
    assert deep.attributes_without_excerpts == []
    assert status(result)["DeepJudgmentAutoFail"] == ("skipped", "every attribute has an excerpt")
    assert type(result).model_validate_json(result.model_dump_json()) == result


def test_a_right_value_that_nothing_supports_fails() -> None:
    result = run(judging(gene="Aspirin blocks another enzyme, they say"), deep_judgment_enabled=True)
    assert result.outcome is Outcome.AUTO_FAILED
    assert result.template.verify_result is False
    assert result.template.field_results == {"gene": True}
    assert result.deep_judgment.attributes_without_excerpts == ["gene"]
    assert result.deep_judgment.deep_judgment_excerpt_retry_count == 2
    assert "gene" in result.vetoes[0].reason
    assert [one.stage for one in result.revisions] == ["DeepJudgmentAutoFail"]
    assert result.extensions["karenina-deep-judgment"]["rejected_excerpts"]["gene"]


def test_reasoning_alone_asks_for_no_excerpts_and_fails_nobody() -> None:
    result = run(judging(gene=None), deep_judgment_mode="reasoning_only")
    assert result.outcome is Outcome.CORRECT
    assert result.deep_judgment.attributes_without_excerpts is None
    assert status(result)["DeepJudgmentAutoFail"] == ("skipped", "no excerpts were requested")


def test_deep_judgment_with_agentic_parsing_stage_10_skips_itself(tmp_path: Path) -> None:
    result = run(
        judging(gene=None),
        deep_judgment_enabled=True,
        agentic_parsing=True,
        agentic_judge_context="trace_only",
        workspace_root=str(tmp_path),
    )
    assert status(result)["AgenticParseTemplate"][0] == "ran"
    assert "DeepJudgmentParseTemplate" not in status(result)
    assert status(result)["DeepJudgmentAutoFail"] == ("skipped", "deep judgment was not performed")
    assert result.outcome is Outcome.CORRECT


def test_verify_raising_leaves_granular_none_under_deep_judgment_too() -> None:
    result = run(judging(), template=RAISING, deep_judgment_enabled=True, trust="all")
    assert result.template.field_verification_error == "RuntimeError: no"
    assert result.template.verify_granular_result is None
    assert result.metadata.error is None


@pytest.mark.parametrize("tool", ["function", "plugin"])
def test_excerpts_are_searched_with_a_function_or_plugin_tool(tool: str) -> None:
    asked: list[str] = []

    class Library:
        name = "library"

        def unavailable(self) -> str | None:
            return None

        async def search(self, query: str) -> str:
            asked.append(query)
            return "Known since 1985."

    def look_up(query: str) -> str:
        asked.append(query)
        return "Known since 1985."

    class Offers:
        @hookimpl
        def karenina_search_tools(self) -> Sequence[Library]:
            return [Library()]

    chosen: str | Callable[[str], str] = look_up if tool == "function" else "library"
    models = judging()
    plugins = Plugins.discover()
    plugins.register(models)
    plugins.register(Offers())
    benchmark = Benchmark.create(name="deep")
    benchmark.add_question("Which gene?", "BCL2", GENE)
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            answering_models=[models.model("a")],
            parsing_models=[models.model("j")],
            deep_judgment_enabled=True,
            deep_judgment_search_enabled=True,
            deep_judgment_search_tool=chosen,
        )
        (result,) = benchmark.run_verification(config)
    assert asked == [QUOTES["gene"]]
    assert result.deep_judgment is not None
    assert result.deep_judgment.deep_judgment_search_enabled is True
    assert result.deep_judgment.hallucination_risk_assessment == {"gene": "low"}


# ---- rubrics


def test_rubric_only_deep_judgment_auto_fails() -> None:
    result = run(
        judging(safe="It has no side effects at all, so take it"),
        template=None,
        rubric=[SAFE, CLEAR, DOI],
        evaluation_mode="rubric_only",
        deep_judgment_rubric_mode="enable_all",
    )
    assert result.outcome is Outcome.AUTO_FAILED
    assert result.template.verify_result is False
    assert result.deep_judgment_rubric.traits_without_valid_excerpts == ["safe"]
    assert "safe (retries: 2)" in result.vetoes[0].reason
    assert result.rubric.regex_trait_scores == {"doi": False}


def test_rubric_only_deep_judgment_with_support_is_scored() -> None:
    result = run(
        judging(),
        template=None,
        rubric=[SAFE, CLEAR, DOI],
        evaluation_mode="rubric_only",
        deep_judgment_rubric_mode="custom",
        deep_judgment_rubric_config={"global": {"safe": {}}},
    )
    deep = result.deep_judgment_rubric
    assert result.outcome is Outcome.SCORED
    assert result.rubric.llm_trait_scores == {"safe": True, "clear": 4}
    assert deep.deep_judgment_rubric_scores == {"safe": True}
    assert deep.standard_rubric_scores == {"clear": 4}
    assert deep.trait_metadata["safe"]["stages_completed"] == [
        "excerpt_extraction",
        "reasoning_generation",
        "score_extraction",
    ]
    assert [one["text"] for one in deep.extracted_rubric_excerpts["safe"]] == [QUOTES["safe"]]
    assert (deep.total_deep_judgment_model_calls, deep.total_traits_evaluated) == (3, 1)
    assert status(result)["DeepJudgmentRubricAutoFail"] == ("skipped", "every trait has excerpts")


def test_the_benchmark_says_which_traits_are_judged_deeply() -> None:
    wishing = SAFE.model_copy(update={"extra": {"deep_judgment_enabled": True, "deep_judgment_excerpt_enabled": False}})
    result = run(
        judging(),
        rubric=[wishing, CLEAR],
        evaluation_mode="template_and_rubric",
        deep_judgment_rubric_mode="use_checkpoint",
    )
    deep = result.deep_judgment_rubric
    assert result.outcome is Outcome.CORRECT
    assert list(deep.trait_metadata) == ["safe"]
    assert deep.trait_metadata["safe"]["stages_completed"] == ["reasoning_generation", "score_extraction"]
    assert deep.traits_without_valid_excerpts == []


def test_failure_of_one_deeply_judged_trait_leaves_the_others() -> None:
    models = judging()
    usual = models.fill

    def fails_for_clear(messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo) -> Any:
        return "no JSON" if "How clear is it?" in messages[1].content else usual(messages, schema, info)

    models.fill = fails_for_clear
    result = run(
        models,
        template=None,
        rubric=[SAFE, CLEAR],
        evaluation_mode="rubric_only",
        deep_judgment_rubric_mode="enable_all",
    )
    assert result.rubric.llm_trait_scores == {"safe": True, "clear": None}
    assert list(result.rubric.trait_errors) == ["clear"]
    assert result.deep_judgment_rubric.traits_without_valid_excerpts == []
    assert result.outcome is Outcome.RUBRIC_ERROR
    assert status(result)["DeepJudgmentRubricAutoFail"] == (
        "skipped",
        "every trait that was scored has excerpts; not scored: clear",
    )


# ---- secrets


def test_no_truth_stands_in_any_request_of_deep_judgment() -> None:
    source = GENE.replace('"BCL2"', '"TRUTHGENE"').replace("ExactMatch()", "ExactMatch(), weight=7.25")
    models = judging()
    result = run(models, template=source, deep_judgment_enabled=True)
    assert result.outcome is Outcome.WRONG
    seen = "\n".join(request.text for request in models.requests)
    assert [secret for secret in ("TRUTHGENE", "7.25") if secret in seen] == []


# ---- searches


@pytest.mark.parametrize("tool", ["function", "plugin"])
def test_replay_calls_neither_judge_nor_search(tool: str, tmp_path: Path) -> None:
    asked: list[str] = []

    def look_up(query: str) -> str:
        asked.append(query)
        return "BCL2 is its target."

    class Library:
        name = "library"

        def unavailable(self) -> str | None:
            return None

        async def search(self, query: str) -> str:
            return look_up(query)

    class Offers:
        @hookimpl
        def karenina_search_tools(self) -> Sequence[Library]:
            return [Library()]

    search: str | Callable[[str], str] = look_up if tool == "function" else "library"
    settings = {"deep_judgment_mode": "full", "deep_judgment_search_enabled": True, "deep_judgment_search_tool": search}
    models, outputs = judging(), [tmp_path / "then.jsonl", tmp_path / "now.jsonl"]
    benchmark = Benchmark.create(name="deep")
    benchmark.add_question("Which gene?", "BCL2", GENE)
    plugins = Plugins.discover()
    plugins.register(models)
    plugins.register(Offers())
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            answering_models=[models.model("a")], parsing_models=[models.model("j")], **settings
        )
        benchmark.run_verification(config, journal=tmp_path / "j", output=outputs[0])
        calls = len(models.requests)
        benchmark.run_verification(config, journal=tmp_path / "j", output=outputs[1], replay=True)

    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert '"search_results":"BCL2 is its target."' in outputs[1].read_text()
    assert (asked, len(models.requests)) == ([QUOTES["gene"]], calls)
