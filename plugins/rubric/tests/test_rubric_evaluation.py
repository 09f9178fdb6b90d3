"""RubricEvaluation: which traits go where, what it reads, and what it leaves behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from math import nan
from typing import Any

import pytest
from rubric_runs import ANSWER, judge, judgement, score, scripted_replies

from karenina_core import ArtifactKeys as Keys
from karenina_core import Question, Skip, hookimpl
from karenina_core.data import rubrics
from karenina_core.models.ports import Message
from karenina_rubric.evaluation import RubricEvaluation
from karenina_rubric.evaluators import TraitScore
from karenina_testing import ScriptedModels, run_stage

DOI = rubrics.RegexRubricTrait(name="doi", pattern="doi:")
SAFE = rubrics.LLMRubricTrait(name="safe", description="It warns of side effects.")
CLEAR = rubrics.LLMRubricTrait(name="clear", description="A layman understands it.")
FACTS = rubrics.MetricRubricTrait(name="facts", metrics=("recall",), tp_instructions=("blocks apoptosis",))
RUNS = rubrics.AgenticRubricTrait(name="runs", description="The code runs.")
UNKNOWN = rubrics.trait_from_json({"type": "smell", "name": "sweet", "scale": 3})


class Evaluator:
    """Scores what has one of its names, by what a function says."""

    def __init__(self, scores: Any, *names: str, precedence: int = 5, claims: Any = None) -> None:
        self.name, self.precedence = "theirs", precedence
        self._scores, self._names, self._claims = scores, names, claims

    @hookimpl
    def karenina_trait_evaluators(self) -> list[Any]:
        return [self]

    def claims(self, trait: rubrics.RubricTrait, context: Any) -> bool:
        return bool(self._claims()) if self._claims else trait.name in self._names

    async def evaluate(self, traits: Sequence[rubrics.RubricTrait], text: str, context: Any) -> Sequence[TraitScore]:
        return self._scores([trait.name for trait in traits])


def fails(*_: object) -> Any:
    raise RuntimeError("out of order")


# ---- whose the traits are


def test_each_kind_lands_in_its_field() -> None:
    models = scripted_replies(judgement(True), {"reasoning": "r", "said": [1], "other_things_said": []})
    here = rubrics.CallableRubricTrait(name="short", function=f"{__name__}:is_short")
    found = score(SAFE, DOI, here, FACTS, models=models)
    expected = {
        "llm_trait_scores": {"safe": True},
        "regex_trait_scores": {"doi": True},
        "callable_trait_scores": {"short": True},
        "metric_trait_scores": {"facts": {"recall": 1.0}},
    }
    assert {name: found.field(name) for name in expected} == expected
    assert expected.items() <= (found.artifact(Keys.RUBRIC_RESULT) or {}).items()
    assert found.field("rubric_evaluation_performed") is True
    assert found.field("rubric_evaluation_strategy") == "batch"


def is_short(text: str) -> bool:
    return len(text) < 1000


def test_a_trait_goes_to_the_first_evaluator_that_claims_it() -> None:
    theirs = Evaluator(lambda names: [TraitScore(name, "llm_trait_scores", False) for name in names], "safe")
    found = score(SAFE, CLEAR, models=judge({"clear": True}), plugins=[theirs])
    assert found.field("llm_trait_scores") == {"safe": False, "clear": True}


def test_an_evaluator_of_lower_precedence_gets_what_is_left() -> None:
    theirs = Evaluator(
        lambda names: [TraitScore(name, "tasting_scores", 3) for name in names], "safe", "sweet", precedence=-5
    )
    found = score(SAFE, UNKNOWN, models=judge({"safe": True}), plugins=[theirs])
    assert found.field("llm_trait_scores") == {"safe": True}
    assert found.field("other_trait_scores") == {"tasting_scores": {"sweet": 3}}


def test_an_unclaimed_trait_is_an_error_of_this_trait() -> None:
    found = score(UNKNOWN, DOI)
    assert found.field("regex_trait_scores") == {"doi": True}
    errors = found.field("trait_errors")
    assert list(errors) == ["sweet"]
    problem, _, kinds = errors["sweet"].partition("; available: ")
    assert problem == "no installed plugin defines traits of type 'smell'; install the plugin that does"
    assert {"agentic", "callable", "llm", "metric", "regex"} <= {*kinds.split(", ")}


def test_the_error_of_a_trait_without_an_evaluator_names_no_folder() -> None:
    question = Question(question="What does BCL2 do?", rubric=[DOI])  # type: ignore[arg-type]  # a list is accepted
    given = {Keys.RAW_LLM_RESPONSE: ANSWER}
    found = asyncio.run(run_stage(RubricEvaluation, question=question, artifacts=given, plugins=[]))
    says = "no evaluator for regex traits is active; unblock or reinstall karenina-rubric"
    assert found.field("trait_errors") == {"doi": says}


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        (Evaluator(fails, "safe"), "the 'theirs' evaluator failed: RuntimeError: out of order"),
        (Evaluator(lambda _: [], "safe"), "returned no score"),
        (Evaluator(lambda _: [TraitScore("doi", "llm_trait_scores", 1)], "safe"), "returned no score"),
        (Evaluator(lambda _: [TraitScore("safe", "llm_trait_scores")], "safe"), "neither a score nor an error"),
        (Evaluator(lambda _: [TraitScore("safe", "llm_trait_scores", [1])], "safe"), "does not fit the field"),
        (Evaluator(lambda _: [TraitScore("safe", "llm_trait_labels", "a")], "safe"), "does not fit the field"),
        (Evaluator(lambda _: [TraitScore("safe", "llm_trait_scores", {"a": [nan]})], "safe"), "contains nan"),
        (Evaluator(lambda _: [TraitScore("safe", "llm_trait_scores", {"a": 10**400})], "safe"), "308 digits"),
        (Evaluator(lambda _: [TraitScore("safe", "own_scores", [object()])], "safe"), ">, which results cannot"),
        (Evaluator(lambda _: [TraitScore("safe", ["own"], 1)], "safe"), "returned an invalid score"),  # type: ignore[arg-type]
        (Evaluator(lambda _: [TraitScore("safe", "llm_trait_scores", error={"no": 1})], "safe"), "{'no': 1}"),  # type: ignore[arg-type]
        (Evaluator(lambda _: [TraitScore("safe", "llm_trait_scores", True, "no time")], "safe"), "no time"),
        (Evaluator(lambda _: [], "safe", claims=fails, precedence=-1), None),
    ],
    ids=[
        *(
            "raises",
            "silent",
            "another trait's",
            "nothing",
            "unfit",
            "not for scores",
            "nan",
            "huge",
            "no JSON",
            "no field",
        ),
        *("odd error", "both", "not asked"),
    ],
)
def test_failure_of_one_evaluator_leaves_the_traits_of_others(theirs: Evaluator, says: str | None) -> None:
    found = score(SAFE, DOI, CLEAR, models=judge({"safe": True, "clear": True}), plugins=[theirs])
    assert found.field("regex_trait_scores") == {"doi": True}
    scores = found.field("llm_trait_scores")
    assert isinstance(scores, dict)
    assert (scores.get("safe"), scores["clear"]) == (None if says else True, True)
    assert says in found.field("trait_errors")["safe"] if says else found.field("trait_errors") is None
    assert found.error is None


def test_a_failing_claim_fails_the_trait() -> None:
    found = score(SAFE, models=judge({"safe": True}), plugins=[Evaluator(fails, claims=fails)])
    assert found.field("llm_trait_scores") == {"safe": None}
    assert "out of order" in found.field("trait_errors")["safe"]


def test_agentic_traits_are_left_to_their_stage() -> None:
    found = score(DOI, RUNS)
    assert found.field("trait_errors") is None
    assert found.artifact(Keys.RUBRIC_RESULT)["regex_trait_scores"] == {"doi": True}  # type: ignore[index]


# ---- which questions


@pytest.mark.parametrize(
    ("static", "dynamic", "expected"),
    [
        ([DOI], None, True),
        (None, [SAFE], True),
        ([RUNS, DOI], None, True),
        ([RUNS], None, "only agentic traits"),
        (None, None, "no traits"),
    ],
)
def test_it_is_for_questions_with_traits_that_are_not_agentic(static: Any, dynamic: Any, expected: Any) -> None:
    question = Question(question="Q", rubric=static, dynamic_rubric=dynamic)
    said = RubricEvaluation().included(None, question)  # type: ignore[arg-type]  # it looks at the question alone
    assert said is expected if expected is True else isinstance(said, Skip) and expected in said.why


def test_a_name_both_static_and_dynamic_is_refused() -> None:
    question = Question(question="Q", rubric=[SAFE], dynamic_rubric=[SAFE])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'safe' is used both in the rubric and in the dynamic rubric"):
        RubricEvaluation().included(None, question)  # type: ignore[arg-type]


# ---- what it reads

TRACE = [Message.assistant("Thinking of doi:10.1."), Message.assistant("BCL2.")]


@pytest.mark.parametrize(("full", "expected"), [(True, True), (False, False)])
def test_it_reads_the_whole_conversation_or_the_final_message(full: bool, expected: bool) -> None:
    given = {Keys.TRACE_MESSAGES: TRACE, Keys.FINAL_AI_MESSAGE: "BCL2."}
    found = score(DOI, artifacts=given, use_full_trace_for_rubric=full)
    assert found.field("regex_trait_scores") == {"doi": expected}
    assert found.field("used_full_trace") is full


def test_by_default_it_reads_the_whole_conversation() -> None:
    assert score(DOI, artifacts={Keys.TRACE_MESSAGES: TRACE}).field("used_full_trace") is True


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({Keys.TRACE_MESSAGES: TRACE, Keys.FINAL_AI_MESSAGE: None}, "does not end with an assistant message"),
        ({Keys.TRACE_MESSAGES: TRACE, Keys.TRACE_VALIDATION_FAILED: True}, "use_full_trace_for_rubric is off"),
    ],
)
def test_without_the_final_message_that_it_reads_it_skips(given: dict[Any, Any], why: str) -> None:
    filtered = score(DOI, artifacts=given, use_full_trace_for_rubric=False)
    assert filtered.record.status == "skipped"
    assert why in (filtered.record.reason or "")
    assert score(DOI, artifacts=given).record.status == "ran"


# ---- dynamic traits

RISKS = rubrics.LLMRubricTrait(name="risks", summary="risks of a treatment", description="It weighs the risks.")
DOSE = rubrics.RegexRubricTrait(name="dose", pattern=r"\d+ mg", summary="a dose")


def present(**found: bool | None) -> dict[str, Any]:
    return {name: {"reasoning": f"{name} it is", "present": value} for name, value in found.items()}


def test_dynamic_traits_count_where_their_concept_is_present() -> None:
    models = scripted_replies(present(risks=True, dose=False), {"safe": judgement(True), "risks": judgement(False)})
    found = score(SAFE, dynamic=[RISKS, DOSE], models=models)
    assert found.field("dynamic_rubric_promoted_traits") == ["risks"]
    assert found.field("dynamic_rubric_skipped_traits") == {"dose": "concept not present: dose it is"}
    assert found.field("llm_trait_scores") == {"safe": True, "risks": False}
    assert found.field("regex_trait_scores") is None
    assert "risks of a treatment" in models.requests[0].text
    assert list((models.requests[0].schema or {})["properties"]) == ["risks", "dose"]


def test_other_keys_beside_the_dynamic_traits_count_for_nothing() -> None:
    found = score(dynamic=[RISKS], models=scripted_replies({**present(risks=False), "": True, "more": {"size": 1}}))
    assert found.error is None
    assert set(found.field("dynamic_rubric_skipped_traits")) == {"risks"}


def test_one_call_checks_the_presence_of_all_dynamic_traits() -> None:
    models = scripted_replies(present(risks=False, dose=False))
    found = score(DOI, dynamic=[RISKS, DOSE, RUNS], models=models)
    assert len(models.requests) == 1
    assert found.field("dynamic_rubric_promoted_traits") == []
    assert set(found.field("dynamic_rubric_skipped_traits")) == {"risks", "dose"}


def test_without_dynamic_traits_presence_is_not_checked() -> None:
    models = ScriptedModels()
    found = score(DOI, models=models)
    assert models.requests == []
    assert found.field("dynamic_rubric_promoted_traits") is None


@pytest.mark.parametrize("reply", ["no JSON", present(risks=None)], ids=["unreadable", "undecided"])
def test_without_presence_only_the_dynamic_traits_fail(reply: Any) -> None:
    found = score(DOI, dynamic=[RISKS], models=scripted_replies(reply, reply))
    assert found.field("regex_trait_scores") == {"doi": True}
    assert found.field("llm_trait_scores") == {"risks": None}
    assert "could not decide whether the concept of the trait is present" in found.field("trait_errors")["risks"]
    assert found.field("dynamic_rubric_skipped_traits") is None


def test_instructions_of_the_user_reach_the_presence_check() -> None:
    models = scripted_replies(present(risks=False))
    score(
        dynamic=[RISKS], models=models, prompt_config={"rubric_evaluation": "Be strict.", "rubric_presence": "Twice."}
    )
    assert "Be strict.\n\nTwice." in models.requests[0].messages[0].content


# ---- deep judgment, which another distribution brings


METADATA = {"model_calls": 3, "excerpt_retry_count": 1, "had_excerpts": True, "excerpt_validation_failed": False}


def deep(*names: str, **changed: Any) -> Evaluator:
    def scores(traits: Sequence[str]) -> list[TraitScore]:
        return [
            TraitScore(
                name,
                "llm_trait_scores",
                True,
                fields={
                    "trait_metadata": {**METADATA, **changed},
                    "extracted_rubric_excerpts": [{"text": "blocks"}],
                    "rubric_trait_reasoning": "it says so",
                    "deep_judgment_rubric_scores": True,
                },
            )
            for name in traits
        ]

    return Evaluator(scores, *names)


def test_what_deep_judgment_brings_lands_in_its_section() -> None:
    found = score(SAFE, CLEAR, RISKS, models=judge({"clear": False}), plugins=[deep("safe", "risks")])
    assert found.field("llm_trait_scores") == {"safe": True, "clear": False, "risks": True}
    assert found.field("deep_judgment_rubric_scores") == {"safe": True, "risks": True}
    assert found.field("standard_rubric_scores") == {"clear": False}
    assert found.field("extracted_rubric_excerpts")["safe"] == [{"text": "blocks"}]
    assert found.field("rubric_trait_reasoning") == {"safe": "it says so", "risks": "it says so"}
    assert found.field("total_deep_judgment_model_calls") == 6
    assert found.field("total_traits_evaluated") == 2
    assert found.field("total_excerpt_retries") == 2
    assert found.artifact(Keys.DEEP_JUDGMENT_RUBRIC_PERFORMED) is True
    assert found.artifact(Keys.TRAIT_METADATA) == {"safe": METADATA, "risks": METADATA}
    assert found.artifact(Keys.TRAITS_WITHOUT_VALID_EXCERPTS) == []


@pytest.mark.parametrize("facts", [{"excerpt_validation_failed": True}, {"had_excerpts": False}], ids=str)
def test_traits_that_nothing_supports_are_named(facts: dict[str, Any]) -> None:
    found = score(SAFE, plugins=[deep("safe", **facts)])
    assert found.artifact(Keys.TRAITS_WITHOUT_VALID_EXCERPTS) == ["safe"]


@pytest.mark.parametrize(
    "facts", [{"stages_completed": ["score_extraction"], "had_excerpts": False}, {"had_excerpts": True}], ids=str
)
def test_traits_that_were_to_have_no_excerpts_lack_none(facts: dict[str, Any]) -> None:
    found = score(SAFE, plugins=[deep("safe", **facts)])
    assert found.artifact(Keys.TRAITS_WITHOUT_VALID_EXCERPTS) == []


def test_a_trait_without_score_needs_no_excerpts() -> None:
    def fails(traits: Sequence[str]) -> list[TraitScore]:
        fields = {"trait_metadata": {**METADATA, "had_excerpts": False}}
        return [TraitScore(name, "llm_trait_scores", error="the judge is gone", fields=fields) for name in traits]

    found = score(SAFE, plugins=[Evaluator(fails, "safe")])
    assert found.field("trait_errors") == {"safe": "the judge is gone"}
    assert found.artifact(Keys.TRAITS_WITHOUT_VALID_EXCERPTS) == []


def test_numbers_of_numpy_are_scores() -> None:
    np = pytest.importorskip("numpy")
    scores = {"one": np.int64(3), "other": np.float32(0.5), "each": [np.int64(1)]}
    found = score(SAFE, plugins=[Evaluator(lambda _: [TraitScore("safe", "own_scores", scores)], "safe")])
    stored = json.dumps(found.field("other_trait_scores")["own_scores"]["safe"])
    assert stored == '{"one": 3, "other": 0.5, "each": [1]}'
    assert found.field("trait_errors") is None


def test_without_deep_judgment_there_is_nothing_to_say_about_it() -> None:
    found = score(SAFE, models=judge({"safe": True}))
    for key in (Keys.DEEP_JUDGMENT_RUBRIC_PERFORMED, Keys.TRAIT_METADATA, Keys.TRAITS_WITHOUT_VALID_EXCERPTS):
        assert key.name in found.state.artifacts
        assert found.artifact(key) is None
    assert found.field("standard_rubric_scores") is None
