"""Tests of trust: results of trusted code are not used after the trust has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from journal_runs import ScriptedRuns
from offers import offering

from karenina_benchmark import Benchmark
from karenina_core import ArtifactKeys, Stage, VerificationContext
from karenina_core.data.rubrics import CallableRubricTrait, Rubric
from karenina_core.data.trust import Trust, digest_of
from karenina_core.plugins import Plugins

CODE = "def long(text):\n    return len(text) > 10"
TEMPLATE = "class Answer(BaseAnswer):\n    def verify(self):\n        return True"


class TellTrust(Stage):
    """Says whether the code in question is trusted."""

    name = "TellTrust"
    requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})

    def execute(self, context: VerificationContext) -> None:
        context.set_result_field("trusted", [context.trust.covers(code) for code in (CODE, TEMPLATE)])
        context.set_result_field("callable_trait_scores", {"long": True})


class Trusting(ScriptedRuns):
    """A world with that stage."""

    def plugins(self) -> Plugins:
        plugins = super().plugins()
        plugins.register(offering(rubric_evaluation=[TellTrust]), distribution="tells", version="1")
        return plugins


def with_trait() -> Benchmark:
    made = Benchmark.create("code")
    trait = CallableRubricTrait(name="long", source=CODE, kind="boolean")
    made.add_question("What is long?", question_id="q", rubric=Rubric(callable_traits=[trait]))
    return made


def with_template() -> Benchmark:
    made = Benchmark.create("code")
    made.add_question("What is long?", question_id="q", answer_template=TEMPLATE)
    return made


@pytest.mark.parametrize(("made", "code"), [(with_trait, CODE), (with_template, TEMPLATE)], ids=["trait", "template"])
def test_result_does_not_outlive_the_trust_of_its_code(tmp_path: Path, made: Any, code: str) -> None:
    world, which = Trusting(), (CODE, TEMPLATE).index(code)

    def trusted(trust: Trust) -> bool:
        (result, *_) = world.run(made(), journal=tmp_path / "run.journal", trust=trust)
        found: bool = result.extensions["tells"]["trusted"][which]
        return found

    given = Trust(frozenset({digest_of(code)}))
    assert [trusted(given), trusted(Trust()), trusted(given)] == [True, False, True]


@pytest.mark.parametrize("made", [with_trait, with_template])
def test_trust_in_other_code_takes_no_result_away(tmp_path: Path, made: Any) -> None:
    other = Trust(frozenset({digest_of("def other(text):\n    return True")}))
    first, again = (Trusting().run(made(), journal=tmp_path / "run.journal", trust=trust) for trust in (Trust(), other))
    assert again.results == first.results
