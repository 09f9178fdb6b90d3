"""Items with traits that cannot be scored are not judged in `rubric_only`, for any reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Environment

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResult, VerificationResultSet
from karenina_core import Skip, Stage, VerificationContext, hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.data.rubrics import (
    CallableRubricTrait,
    LLMRubricTrait,
    RegexRubricTrait,
    RubricTrait,
    trait_from_json,
)
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_core.plugins import Plugins
from karenina_testing import ScriptedModels

DEAD = "openai:m@http://127.0.0.1:9/v1"
CLEAR = LLMRubricTrait(name="clear", description="It is clear.")
FOUR = RegexRubricTrait(name="four", pattern="four")
SHORT = CallableRubricTrait(name="short", source="def f(text):\n    return len(text) < 100\n")
SWEET = trait_from_json({"type": "tasting", "name": "sweet"})


def is_away(*_: object) -> Any:
    raise PortError("the judge is away", category=ErrorCategory.PERMANENT)


def run(*traits: RubricTrait, plugins: Sequence[object] = (), **more: Any) -> VerificationResultSet:
    """Return two items with these traits, before a judge that cannot be reached; nothing is trusted."""
    models = ScriptedModels(say=lambda *_: "It is four.", fill=is_away)
    benchmark = Benchmark.create("Sums")
    for number in (2, 3):
        benchmark.add_question(f"What is {number} plus two?", rubric=traits)
    room = Plugins.discover()
    for plugin in (models, *plugins):
        room.register(plugin)
    with plugin_room.use_plugins(room):
        config = VerificationConfig(
            answering_models=[models.model("a")],
            parsing_models=[models.model("j")],
            evaluation_mode="rubric_only",
            **more,
        )
        return benchmark.run_verification(config)


@pytest.mark.parametrize(
    ("trait", "settings", "why"),
    [
        (CLEAR, {}, "the judge is away"),
        (CLEAR, {"deep_judgment_rubric_mode": "enable_all"}, "the judge is away"),
        (SHORT, {}, "is not trusted"),
        (SWEET, {}, "no installed plugin defines traits of type 'tasting'"),
    ],
    ids=["dead judge", "dead judge of deep judgment", "untrusted function", "kind without its plugin"],
)
def test_an_item_with_an_unscored_trait_is_not_judged(trait: RubricTrait, settings: dict[str, Any], why: str) -> None:
    found = run(trait, FOUR, **settings)
    assert [one.outcome for one in found] == [Outcome.RUBRIC_ERROR] * 2
    assert why in found[0].why()
    assert found[0].why().startswith(f"not every trait could be scored: {trait.name}: ")
    summary = found.summary()
    assert (summary.not_judged, summary.scored, summary.judged, summary.worst) == (2, 0, 0, None)


def test_the_other_traits_keep_their_scores() -> None:
    (first, _) = run(CLEAR, FOUR)
    assert first.rubric is not None
    assert first.rubric.get_all_trait_scores() == {"clear": None, "four": True}


def test_traits_with_one_reason_are_named_together() -> None:
    polite = LLMRubricTrait(name="polite", description="It is polite.")
    (first, _) = run(CLEAR, polite)
    assert first.why().startswith("not every trait could be scored: clear, polite: ")


def test_failed_deep_judgment_traits_have_no_excerpts() -> None:
    (first, _) = run(CLEAR, deep_judgment_rubric_mode="enable_all")
    assert _stage(first, "DeepJudgmentRubricAutoFail") == ("skipped", "no trait could be scored")


class Never(Stage):
    """A stage that would score every trait, and never runs."""

    name = "Never"

    def scores(self, trait: RubricTrait) -> bool:
        return True

    def should_run(self, context: VerificationContext) -> Skip:
        return Skip("not today")

    def execute(self, context: VerificationContext) -> None:
        raise AssertionError


class Offers:
    @hookimpl
    def karenina_rubric_evaluation(self) -> list[type[Stage]]:
        return [Never]


def test_a_skipped_rubric_stage_is_named_as_the_reason() -> None:
    (first, _) = run(FOUR, plugins=[Offers()], slots={"rubric_evaluation": ["Never"]})
    assert first.outcome is Outcome.RUBRIC_ERROR
    assert first.why() == "not every trait could be scored: Never: not today"


def test_a_run_without_one_scored_item_ends_with_code_4(site: Environment) -> None:
    file = site.write("sums.yaml", json.dumps(SUMS))
    answers = site.write("answers.jsonl", '{"id": "q2", "response": "It is four."}\n')
    settings = ["--set", "evaluation_mode=rubric_only", "--set", "retry_connection=0"]
    done = site.karenina("run", file, "--recordings", answers, "-j", DEAD, *settings, "-o", "out.jsonl")
    assert done.returncode == 4, done.stderr
    assert "No item was judged: the only item ended in an error" in done.stderr
    assert "clear: not scored: openai:m at http://127.0.0.1:9/v1: could not connect" in done.stdout
    assert "Bounds" not in done.stdout
    shown = site.karenina("show", "out.jsonl")
    assert "rubric_error" in shown.stdout


def test_the_item_is_judged_when_the_run_goes_on(tmp_path: Path) -> None:
    models = ScriptedModels(say=lambda *_: "It is four.", fill=is_away)
    benchmark = Benchmark.create("Sums")
    benchmark.add_question("What is two plus two?", rubric=[CLEAR])
    plugins = Plugins.discover()
    plugins.register(models)
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            answering_models=[models.model("a")], parsing_models=[models.model("j")], evaluation_mode="rubric_only"
        )
        (first,) = benchmark.run_verification(config, journal=tmp_path / "j")
        models.fill = lambda *_: {"reasoning": "r", "score": True}
        (then,) = benchmark.run_verification(config, journal=tmp_path / "j")
    assert (first.outcome, then.outcome) == (Outcome.RUBRIC_ERROR, Outcome.SCORED)


SUMS = {
    "karenina": 1,
    "name": "Sums",
    "rubric": [{"type": "llm", "name": "clear", "description": "It is clear."}],
    "questions": [{"id": "q2", "question": "What is two plus two?"}],
}


def _stage(result: VerificationResult, name: str) -> tuple[str, str | None]:
    record = result.stage(name)
    assert record is not None
    return record.status, record.reason


def test_code_that_is_not_trusted_is_named_before_the_run(caplog: pytest.LogCaptureFixture) -> None:
    run(SHORT, FOUR)
    (warned,) = [line for line in caplog.messages if "not trusted" in line and "cannot be scored" in line]
    assert warned.startswith(
        "the following traits cannot be scored because their code is not trusted: 'short'. Read the code"
    )


def test_scoring_again_prints_no_pass_rate_of_scores(site: Environment) -> None:
    rubric = [{"type": "regex", "name": "four", "pattern": "four"}]
    file = site.write("sums.yaml", json.dumps({**SUMS, "rubric": rubric}))
    answers = site.write("answers.jsonl", '{"id": "q2", "response": "It is four."}\n')
    settings = ["--set", "evaluation_mode=rubric_only", "-o", "out.jsonl"]
    done = site.karenina("run", file, "--recordings", answers, *settings)
    again = site.karenina("rescore", "out.journal")
    assert (done.returncode, again.returncode) == (0, 0), done.stderr + again.stderr
    assert "four: 100.0% true of 1" in done.stdout
    assert "Pass rate" not in done.stdout
    assert again.stdout.count("1 of 1 scored") == 2
