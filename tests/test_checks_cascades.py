"""The finding of a check reaches all later stages: which are skipped, which still run, and the outcome of the item."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import pytest

from karenina import Benchmark, Outcome, Question, VerificationConfig, VerificationResult
from karenina_core import plugins as plugin_room
from karenina_core.data.rubrics import RegexRubricTrait
from karenina_core.models.ports import AgentReply, CallInfo, Message, ToolCall
from karenina_core.plan import make_plan
from karenina_core.plugins import Plugins
from karenina_core.stages.stage import registered_stages
from karenina_engine.results.result_set import VerificationResultSet
from karenina_engine.results.summary_text import summary_rows
from karenina_testing import ScriptedModels

GENE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())
"""
FINDINGS: dict[str, Mapping[str, Any] | str] = {
    "abstention_check": {"reasoning": "It declines.", "abstained": False},
    "sufficiency_check": {"reasoning": "It names none.", "sufficient": True},
    "parsing": {"gene": "BCL2"},
}
CALL = ToolCall("c1", "look_up", {"gene": "BCL2"})
INSTALLED = {offered.stage.name for offered in registered_stages(plugin_room.active_plugins())}
SWITCHES: dict[str, dict[str, Any]] = {
    "EmbeddingCheck": {"embedding_check_enabled": True} if find_spec("sentence_transformers") else {},
    "DeepJudgmentAutoFail": {"deep_judgment_mode": "full"},
    "DeepJudgmentRubricAutoFail": {"deep_judgment_rubric_mode": "enable_all"},
    "RubricEvaluation": {"evaluation_mode": "template_and_rubric"},
}
"""Settings that bring the stages of other distributions into the plan if they are installed."""


def judging(**found: Mapping[str, Any] | str) -> ScriptedModels:
    """Return a judge that finds nothing wrong with an answer but what is said here, by stage."""
    findings = {**FINDINGS, **found}

    def fill(_messages: object, _schema: object, info: CallInfo) -> Mapping[str, Any] | str:
        return findings[info.task]

    return ScriptedModels(say=lambda *_: "It is BCL2.", fill=fill)


def run(models: ScriptedModels, *, judges: int = 1, with_others: bool = False, **more: Any) -> list[VerificationResult]:
    """Return the results of one question by each judge; `with_others`: with every stage in the plan that can be had."""
    plugins = Plugins.discover()
    plugins.register(models)
    others: dict[str, Any] = {}
    for stage, switch in SWITCHES.items():
        others |= switch if with_others and stage in INSTALLED else {}
    benchmark = Benchmark.create(name="cascades")
    rubric = [RegexRubricTrait(name="names it", pattern="BCL2")] if "RubricEvaluation" in INSTALLED else None
    benchmark.add_question("Which gene?", "BCL2", GENE, rubric=rubric)
    answering = models.model("a", **more.pop("answering", {}))
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            answering_models=[answering],
            parsing_models=[models.model(f"j{at}") for at in range(judges)],
            **{**others, "abstention_enabled": True, "sufficiency_enabled": True, **more},
        )
        return list(benchmark.run_verification(config))


def stages_of(result: VerificationResult) -> dict[str, str]:
    """By slot, what became of the stage there."""
    return {record.slot: record.status for record in result.stages if record.slot is not None}


REFUSAL = judging(abstention_check={"reasoning": "It declines.", "abstained": True})
TOO_LITTLE = judging(sufficiency_check={"reasoning": "It names none.", "sufficient": False})
BROKEN_OFF = ScriptedModels(act=lambda *_: AgentReply((Message.assistant("", [CALL]),), limit_reached=True))
UNANSWERED = ScriptedModels(
    act=lambda *_: [Message.assistant("", [CALL]), Message.tool("it regulates apoptosis", CALL)],
    fill=lambda _messages, _schema, info: FINDINGS[info.task],
)
MCP = {"answering": {"mcp_urls_dict": {"genes": "http://localhost:1/mcp"}}}

CASCADES = [
    (
        "refusal",
        REFUSAL,
        {},
        Outcome.ABSTAINED,
        {"abstention_check": "ran", "sufficiency_check": "skipped", "deep_judgment_rubric_auto_fail": "skipped"},
    ),
    (
        "too little",
        TOO_LITTLE,
        {},
        Outcome.INSUFFICIENT,
        {"abstention_check": "ran", "sufficiency_check": "ran"},
    ),
    (
        "turn limit",
        BROKEN_OFF,
        MCP,
        Outcome.AUTO_FAILED,
        {
            "recursion_limit_auto_fail": "ran",
            "trace_validation_auto_fail": "skipped",
            "abstention_check": "skipped",
            "sufficiency_check": "skipped",
        },
    ),
    (
        "no answer at the end",
        UNANSWERED,
        MCP,
        Outcome.AUTO_FAILED,
        {"trace_validation_auto_fail": "ran", "abstention_check": "ran", "sufficiency_check": "skipped"},
    ),
]
BEHIND = {
    "parse_template": "skipped",
    "verify_template": "skipped",
    "embedding_check": "skipped",
    "deep_judgment_auto_fail": "skipped",
    "finalize_result": "ran",
}
"""The effect of every cascade on the stages after the checks if they are in the plan."""


@pytest.mark.parametrize(
    ("models", "more", "outcome", "expected"), [one[1:] for one in CASCADES], ids=[one[0] for one in CASCADES]
)
def test_a_failed_check_skips_the_later_stages(
    models: ScriptedModels, more: dict[str, Any], outcome: Outcome, expected: dict[str, str]
) -> None:
    (result,) = run(models, with_others=True, **more)
    found = stages_of(result)
    assert {slot: found[slot] for slot in {**expected, **BEHIND} if slot in found} == {
        slot: status for slot, status in {**expected, **BEHIND}.items() if slot in found
    }
    assert {"abstention_check", "sufficiency_check", "parse_template", "verify_template"} <= set(found)
    assert (result.outcome, result.template.verify_result) == (outcome, False)
    assert result.template.template_verification_performed is False
    assert result.metadata.completed_without_errors is True


@pytest.mark.parametrize("models", [REFUSAL, TOO_LITTLE], ids=["refusal", "too little"])
@pytest.mark.skipif("RubricEvaluation" not in INSTALLED, reason="karenina-rubric is not installed")
def test_rubrics_score_what_a_check_has_failed(models: ScriptedModels) -> None:
    (result,) = run(models, with_others=True)
    assert stages_of(result)["rubric_evaluation"] == "ran"


def test_each_skip_says_why() -> None:
    (result,) = run(REFUSAL, with_others=True)
    reasons = {record.slot: record.reason for record in result.stages if record.status == "skipped"}
    assert reasons["sufficiency_check"] == reasons["parse_template"] == "the model abstained"
    assert "parsed_answer is missing" in (reasons["verify_template"] or "")


def test_a_refusal_costs_one_judge_call() -> None:
    (result,) = run(REFUSAL)
    template = result.template
    assert template.usage_metadata is not None
    assert set(template.usage_metadata) == {"answer_generation", "abstention_check", "total"}
    assert (template.abstention_check_performed, template.abstention_detected) == (True, True)
    assert (template.abstention_override_applied, template.abstention_reasoning) == (True, "It declines.")
    assert template.sufficiency_check_performed is False
    assert template.sufficiency_detected is None


def test_passing_both_checks_does_not_change_the_verdict() -> None:
    checked, unchecked = (run(judging(), abstention_enabled=on, sufficiency_enabled=on)[0] for on in (True, False))
    assert checked.outcome is unchecked.outcome is Outcome.CORRECT
    assert (checked.template.abstention_detected, checked.template.sufficiency_detected) == (False, True)
    assert checked.vetoes == []


def test_checks_that_could_not_be_performed_change_nothing() -> None:
    models = judging(abstention_check="I am sorry.", sufficiency_check="I am sorry.")
    results = run(models)
    (result,) = results
    template = result.template
    assert result.outcome is Outcome.CORRECT
    assert (template.abstention_check_performed, template.sufficiency_check_performed) == (False, False)
    assert (template.abstention_detected, template.sufficiency_detected) == (None, None)
    assert template.abstention_reasoning is not None
    assert template.abstention_reasoning.startswith("not performed")
    failed = VerificationResultSet(results).failed_checks()
    assert [(one.items, one.error.partition(":")[0]) for one in failed] == [
        (1, "abstention check not performed"),
        (1, "sufficiency check not performed"),
    ]
    assert [name for name, _ in summary_rows(VerificationResultSet(results)) if name == "Checks"] == ["Checks"]
    assert VerificationResultSet(run(judging())).failed_checks() == []


def test_judges_may_disagree_about_a_refusal() -> None:
    verdicts = iter([True, False])

    def fill(_messages: object, _schema: object, info: CallInfo) -> Mapping[str, Any] | str:
        if info.task == "abstention_check":
            return {"reasoning": "So it seems.", "abstained": next(verdicts)}
        return FINDINGS[info.task]

    models = ScriptedModels(say=lambda *_: "It is BCL2.", fill=fill)
    results = run(models, judges=2)
    assert {result.outcome for result in results} == {Outcome.ABSTAINED, Outcome.CORRECT}
    assert [request.info.task for request in models.requests].count("answer_generation") == 1


def test_the_plan_of_rubric_only_omits_the_sufficiency_check() -> None:
    config = VerificationConfig(evaluation_mode="rubric_only", abstention_enabled=True, sufficiency_enabled=True)
    plan = make_plan(registered_stages(plugin_room.active_plugins()), config, Question(question="Which gene?"))
    assert "AbstentionCheck" in plan.names()
    left_out = {one.name: one.why for one in plan.left_out}
    assert left_out["SufficiencyCheck"] == "slot sufficiency_check does not exist in rubric_only mode"
