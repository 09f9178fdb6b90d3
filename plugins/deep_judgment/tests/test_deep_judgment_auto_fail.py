"""Stages 10 and 12 alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Stage
from karenina_core.data.trust import NO_TRUST
from karenina_deep_judgment.auto_fail import DeepJudgmentAutoFail, DeepJudgmentRubricAutoFail
from karenina_testing import StageRun, run_stage

UNSUPPORTED: dict[Any, Any] = {
    Keys.DEEP_JUDGMENT_PERFORMED: True,
    Keys.ATTRIBUTES_WITHOUT_EXCERPTS: ["gene", "year"],
    Keys.DEEP_JUDGMENT_EXCERPT_RETRY_COUNT: 2,
    Keys.FIELD_VERIFICATION_RESULT: True,
}
UNSUPPORTED_TRAITS: dict[Any, Any] = {
    Keys.DEEP_JUDGMENT_RUBRIC_PERFORMED: True,
    Keys.TRAITS_WITHOUT_VALID_EXCERPTS: ["clear"],
    Keys.TRAIT_METADATA: {"clear": {"excerpt_retry_count": 3}, "kind": {"excerpt_retry_count": 0}},
}


def run(stage: type[Stage], artifacts: dict[Any, Any]) -> StageRun:
    switches: dict[str, Any] = {"deep_judgment_mode": "full", "deep_judgment_rubric_mode": "enable_all"}
    return asyncio.run(run_stage(stage, artifacts=artifacts, **switches))


def test_attributes_without_excerpts_fail_the_answer_and_its_fields() -> None:
    found = run(DeepJudgmentAutoFail, UNSUPPORTED)
    (veto,) = found.vetoes
    assert veto.reason == "nothing in the response supports gene, year (retries: 2)"
    assert veto.outcome is Outcome.AUTO_FAILED
    assert found.artifact(Keys.FIELD_VERIFICATION_RESULT) is False
    assert [(one.before, one.after) for one in found.state.revisions] == [(True, False)]


@pytest.mark.parametrize("fields", [{}, {Keys.FIELD_VERIFICATION_RESULT: False}])
def test_a_failed_field_result_is_not_revised(fields: dict[Any, Any]) -> None:
    artifacts = {key: value for key, value in UNSUPPORTED.items() if key is not Keys.FIELD_VERIFICATION_RESULT}
    found = run(DeepJudgmentAutoFail, artifacts | fields)
    assert len(found.vetoes) == 1
    assert found.state.revisions == []


@pytest.mark.parametrize(
    ("artifacts", "why"),
    [
        ({Keys.DEEP_JUDGMENT_PERFORMED: False}, "deep judgment was not performed"),
        ({Keys.ATTRIBUTES_WITHOUT_EXCERPTS: None}, "no excerpts were requested"),
        ({Keys.ATTRIBUTES_WITHOUT_EXCERPTS: []}, "every attribute has an excerpt"),
        ({Keys.ABSTENTION_DETECTED: True}, "the model abstained"),
    ],
)
def test_stage_10_skips_itself(artifacts: dict[Any, Any], why: str) -> None:
    found = run(DeepJudgmentAutoFail, UNSUPPORTED | artifacts)
    assert (found.record.status, found.record.reason) == ("skipped", why)
    assert found.vetoes == []
    assert found.artifact(Keys.FIELD_VERIFICATION_RESULT) is True


def test_stage_10_leaves_undecided_fields_alone() -> None:
    found = run(DeepJudgmentAutoFail, UNSUPPORTED | {Keys.FIELD_VERIFICATION_RESULT: None})
    assert (found.record.status, found.record.reason) == ("skipped", "the fields are undecided")
    assert found.vetoes == []


def test_deep_judgment_with_agentic_parsing_stage_10_skips_itself() -> None:
    """Agentic parsing sets that deep judgment was not performed, and nothing else of it."""
    found = run(DeepJudgmentAutoFail, {Keys.DEEP_JUDGMENT_PERFORMED: False, Keys.FIELD_VERIFICATION_RESULT: True})
    assert found.record.status == "skipped"


def test_traits_without_excerpts_fail_the_answer() -> None:
    (veto,) = run(DeepJudgmentRubricAutoFail, UNSUPPORTED_TRAITS).vetoes
    assert veto.reason == "nothing in the response supports the score of clear (retries: 3)"


@pytest.mark.parametrize(
    ("artifacts", "why"),
    [
        ({Keys.DEEP_JUDGMENT_RUBRIC_PERFORMED: False}, "deep judgment of traits was not performed"),
        ({Keys.TRAITS_WITHOUT_VALID_EXCERPTS: []}, "every trait has excerpts"),
        ({Keys.TRAITS_WITHOUT_VALID_EXCERPTS: None}, "every trait has excerpts"),
        ({Keys.ABSTENTION_DETECTED: True}, "the model abstained"),
    ],
)
def test_stage_12_skips_itself(artifacts: dict[Any, Any], why: str) -> None:
    found = run(DeepJudgmentRubricAutoFail, UNSUPPORTED_TRAITS | artifacts)
    assert (found.record.status, found.record.reason) == ("skipped", why)


def test_unknown_names_in_the_configuration_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    from karenina_core import Question, VerificationConfig, hookimpl
    from karenina_core import plugins as plugin_room
    from karenina_core.data.rubrics import LLMRubricTrait, Rubric
    from karenina_core.plugins import Plugins

    class Offers:
        @hookimpl
        def karenina_deep_judgment_rubric_auto_fail(self) -> list[type[DeepJudgmentRubricAutoFail]]:
            return [DeepJudgmentRubricAutoFail]

    plugins = Plugins()
    plugins.register(Offers())
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            deep_judgment_rubric_mode="custom",
            deep_judgment_rubric_config={"global": {"claritty": {}}, "question_specific": {"q9": {"clarity": {}}}},
        )
    trait = LLMRubricTrait(name="clarity", kind="boolean", description="It is clear")
    asked = Question(id="q1", question="Which?", rubric=Rubric.of(trait))
    with caplog.at_level("WARNING", logger="karenina"):
        assert list(DeepJudgmentRubricAutoFail().before_run(config, [asked], NO_TRUST)) == []
    assert "no trait in this run is named 'claritty'; did you mean 'clarity'?" in caplog.text
    assert "no question in this run is named 'q9'" in caplog.text
