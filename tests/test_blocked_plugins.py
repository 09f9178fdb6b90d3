"""Blocked plugins: a contradiction with another setting is an error of the plan."""

from __future__ import annotations

from typing import Any

import pytest

from karenina import Benchmark, Question, VerificationConfig
from karenina_core.data.rubrics import RegexRubricTrait, Rubric
from karenina_core.errors import ConfigError
from karenina_core.plan import Plan, PlanError
from karenina_core.plugins import Plugins, Selection, use_plugins
from karenina_engine.check.planner import Planner
from karenina_toolkit.plugin_lookup import plugins_of

BOTH = {"evaluation_mode": "template_and_rubric"}


def plan(*blocked: str, question: Question | None = None, **settings: Any) -> Plan:
    config = VerificationConfig(plugins={"block": blocked}, **settings)
    return Planner(config, plugins_of(config)).plan(question or Question(question="Which?"))


@pytest.mark.parametrize(
    ("blocked", "settings", "stage", "asks"),
    [
        ("AbstentionCheck", {"abstention_enabled": True}, "AbstentionCheck", "abstention_enabled"),
        ("karenina-checks", {"abstention_enabled": True}, "AbstentionCheck", "abstention_enabled"),
        ("karenina_checks", {"sufficiency_enabled": True}, "SufficiencyCheck", "sufficiency_enabled"),
        (
            "DeepJudgmentParseTemplate",
            {"deep_judgment_mode": "full"},
            "DeepJudgmentParseTemplate",
            "deep_judgment_mode",
        ),
        (
            "karenina-deep-judgment",
            {"deep_judgment_enabled": True},
            "DeepJudgmentAutoFail",
            "deep_judgment_enabled",
        ),
        (
            "karenina-deep-judgment",
            {"deep_judgment_rubric_mode": "enable_all", **BOTH},
            "DeepJudgmentRubricAutoFail",
            "deep_judgment_rubric_mode",
        ),
        ("AgenticParseTemplate", {"agentic_parsing": True}, "AgenticParseTemplate", "agentic_parsing"),
    ],
)
def test_a_blocked_stage_that_a_setting_needs_is_an_error(
    blocked: str, settings: dict[str, Any], stage: str, asks: str
) -> None:
    with pytest.raises(PlanError) as caught:
        plan(blocked, **settings)
    assert (
        f"the stage {stage} is blocked under [plugins] but requested by {asks}; change one of the two"
        in caught.value.problems
    )


def test_a_stage_that_the_environment_blocks_is_a_problem_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARENINA_PLUGINS", "-AbstentionCheck")
    plugins = Plugins.discover(Selection.of())
    with use_plugins(plugins), pytest.raises(PlanError, match="requested by abstention_enabled"):
        plan(abstention_enabled=True)


@pytest.mark.parametrize(
    ("blocked", "settings"),
    [
        ("karenina-checks", {"abstention_enabled": False}),
        ("RecursionLimitAutoFail", {}),
        ("DeepJudgmentAutoFail", {"deep_judgment_mode": "full", "slots": {"deep_judgment_auto_fail": []}}),
        ("SufficiencyCheck", {"sufficiency_enabled": True, "evaluation_mode": "rubric_only"}),
    ],
)
def test_a_blocked_stage_that_no_setting_needs_is_omitted(blocked: str, settings: dict[str, Any]) -> None:
    left_out = {left.name: left.why for left in plan(blocked, **settings).left_out}
    assert "its plugin is not used: excluded by [plugins] or KARENINA_PLUGINS" in left_out.values()


def test_a_stage_that_the_question_asks_for_may_be_blocked() -> None:
    question = Question(question="Which?", rubric=Rubric(regex_traits=[RegexRubricTrait(name="doi", pattern="doi")]))
    with pytest.raises(PlanError) as caught:
        plan("RubricEvaluation", question=question, **BOTH)
    assert "no stage in slot rubric_evaluation scores them" in str(caught.value), "not for a setting"
    assert "asks for it" not in str(caught.value)


def test_settings_of_a_blocked_plugin_without_stages_are_refused() -> None:
    benchmark = Benchmark.create("genes")
    benchmark.add_question("Which gene?")
    with pytest.raises(ConfigError, match=r"otel has no effect: karenina-otel .* excluded by \[plugins\]"):
        benchmark.run_verification({"otel": True, "plugins": {"block": ["karenina-otel"]}})


KNOWN = """
from karenina.templates import BaseAnswer, NumericMaximum, VerifiedField


class Answer(BaseAnswer):
    n: int = VerifiedField(source="{name}", ground_truth=8, verify_with=NumericMaximum())
"""


@pytest.mark.parametrize(
    ("blocked", "name", "owner"),
    [
        ("karenina-generation", "trace.steps", "karenina-generation"),
        ("GenerateAnswer", "answer.cost", "karenina-generation"),
        ("karenina-conversation", "conversation.turns", "karenina-conversation"),
    ],
)
def test_a_known_value_names_the_plugin_that_usually_offers_it(blocked: str, name: str, owner: str) -> None:
    question = Question(question="Which?", answer_template=KNOWN.format(name=name))
    with pytest.raises(PlanError) as caught:
        plan(blocked, question=question)
    assert f"compares the known value {name!r}, which {owner} offers: pip install" in str(caught.value)
