"""Findings of third-party trait kinds and checks are stored in results and shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from conftest import Environment

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResult, VerificationResultSet
from karenina_core import ArtifactKeys as Keys
from karenina_core import CheckStage, Stage, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.data.rubrics import LLMRubricTrait, RubricTrait
from karenina_core.plugins import Plugins
from karenina_core.stages.stage import Detection
from karenina_rubric.evaluators import TraitScore
from karenina_testing import ScriptedModels


class Tasting(RubricTrait):
    """A kind of trait of a third party."""

    type: Literal["tasting"] = "tasting"


class Tasters:
    """Scores tastings."""

    name: ClassVar[str] = "tasters"
    precedence: ClassVar[int] = 0

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        return trait.type == "tasting"

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[TraitScore]:
        return [TraitScore(trait.name, "tasting_trait_scores", len(text)) for trait in traits]


class Shouting(CheckStage):
    """Finds answers in capitals, and fails none."""

    name = "Shouting"
    prefix = "shouting"
    requires = frozenset({Keys.RAW_LLM_RESPONSE})

    async def detect(self, context: VerificationContext) -> Detection:
        return Detection(context.get_artifact(Keys.RAW_LLM_RESPONSE).isupper(), reasoning="looked at the letters")

    def triggers(self, detected: bool) -> bool:
        return False


class Offers:
    """The plugin of both."""

    @hookimpl
    def karenina_trait_evaluators(self) -> list[Tasters]:
        return [Tasters()]

    @hookimpl
    def karenina_abstention_check(self) -> list[type[Stage]]:
        return [Shouting]


TONE = LLMRubricTrait(name="tone", kind="literal", classes={"rude": "It insults.", "kind": "It cares."})


@pytest.fixture(scope="module")
def result() -> VerificationResult:
    """Return the result of a run with a third party's trait and check."""
    models = ScriptedModels(say=lambda *_: "FOUR", fill=lambda *_: {"reasoning": "it says please", "score": "kind"})
    plugins = Plugins.discover()
    plugins.register(models)
    plugins.register(Offers(), distribution="their-package")
    benchmark = Benchmark.create("Sums")
    benchmark.add_question("What is two plus two?", rubric=[Tasting(name="sweet"), TONE], question_id="q2")
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            answering_models=[models.model("a")], parsing_models=[models.model("j")], evaluation_mode="rubric_only"
        )
        (found,) = benchmark.run_verification(config)
    return found


def test_scores_of_third_party_kinds_count(result: VerificationResult) -> None:
    assert result.outcome is Outcome.SCORED
    assert result.rubric is not None
    assert result.rubric.other_trait_scores == {"tasting_trait_scores": {"sweet": 4}}
    assert result.rubric.get_all_trait_scores() == {"tone": 1, "sweet": 4}
    assert result.rubric.get_trait_by_name("sweet") == (4, "tasting")


def test_findings_of_third_party_checks_are_in_results(result: VerificationResult) -> None:
    assert result.extensions["their-package"] == {
        "shouting_check_performed": True,
        "shouting_detected": True,
        "shouting_override_applied": False,
        "shouting_reasoning": "looked at the letters",
    }


def test_labels_and_reasons_of_judges_are_in_the_rubric_section(result: VerificationResult) -> None:
    assert result.rubric is not None
    assert result.rubric.llm_trait_reasoning == {"tone": "it says please"}
    assert (result.rubric.labels(), result.rubric.reasons()) == ({"tone": "kind"}, {"tone": "it says please"})
    assert VerificationResult.model_validate_json(result.model_dump_json()) == result


def test_all_of_it_is_shown(result: VerificationResult, site: Environment) -> None:
    VerificationResultSet([result]).save(Path(site.folder) / "out.jsonl")
    shown: Any = site.karenina("show", "out.jsonl")
    assert shown.returncode == 0, shown.stderr
    for text in ("sweet = 4", "tone = 1 (kind)", "tone: it says please", '"shouting_detected": true'):
        assert text in shown.stdout
