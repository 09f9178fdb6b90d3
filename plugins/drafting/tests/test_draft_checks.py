"""The checks of a draft: what builds, what shows a truth, and what accepts a wrong answer."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_drafts import CELSIUS, GENE, YEAR, proposal

from karenina_core.data.question import Question
from karenina_drafting.brief import OtherAnswer, choose_others
from karenina_drafting.draft_checks import CheckedDraft, check_draft
from karenina_drafting.proposal import ProposalError, declare

pytestmark = pytest.mark.alone

OTHERS = (OtherAnswer(question_id="other", question="Which year?", answer="1997"),)
DATE = {"name": "day", "description": "The day", "primitive": "DateMatch", "ground_truth": ["2016-04-11"]}
HUMAN = {"name": "human", "description": "Whether it is human", "primitive": "BooleanMatch", "ground_truth": ["true"]}
PHASE = {
    "name": "phase",
    "description": "Whether it is a solid, liquid or gas according to the response",
    "primitive": "LiteralMatch",
    "ground_truth": ["liquid"],
    "choices": ["solid", "liquid", "gas"],
}
METALS = {
    "name": "metals",
    "description": "The metals that the response lists",
    "primitive": "SetContainment",
    "ground_truth": ["copper", "tin"],
}


def check(reference: str, *fields: dict[str, Any], question: str = "What is it?") -> CheckedDraft:
    """Return the checks of a draft for a question with this answer."""
    return check_draft(Question(id="q", question=question), reference, proposal(*fields), OTHERS)


@pytest.mark.parametrize(
    ("reference", "field"),
    [
        ("BCL2", GENE),
        ("It was approved in 2016.", YEAR),
        ("78.4 °C", CELSIUS),
        ("Yes, it is.", HUMAN),
        ("April 11, 2016", DATE),
        ("a liquid", PHASE),
        ("tin and copper", METALS),
        ("tin, then copper", {**METALS, "primitive": "OrderedMatch", "ground_truth": ["tin", "copper"]}),
    ],
)
def test_each_kind_of_field_can_pass(reference: str, field: dict[str, Any]) -> None:
    assert check(reference, field).problems == ()


def test_synonyms_are_accepted_as_a_judge_writes_them() -> None:
    bound = check("BCL2", GENE).bound
    assert bound is not None

    passing = ["BCL2", "bcl-2", "B-Cell Lymphoma 2", "b cell lymphoma 2"]
    assert [bound.bind({"gene": text}).verify() for text in passing] == [True, True, True, False]


@pytest.mark.parametrize(
    ("reference", "field", "problem"),
    [
        (
            "BCL2",
            GENE | {"description": "The gene, such as BCL2"},
            "the description of field 'gene' contains the ground truth, 'BCL2'",
        ),
        ("BCL2", GENE | {"name": "bcl2"}, "the name 'bcl2' contains the truth 'BCL2'"),
        ("BCL2", GENE | {"description": "The answer"}, "is not informative"),
        ("BCL2", GENE | {"description": "Whether the answer is correct"}, "asks for a verdict"),
        ("BAX", GENE, "the truth 'BCL2' of 'gene' is not in the answer 'BAX'"),
        ("BCL2", GENE | {"synonyms": ["1997"]}, "the draft accepts '1997', the answer to another question"),
        ("2016", YEAR | {"primitive": "NumericTolerance", "tolerance": 100}, "the draft accepts '1997'"),
        ("certainly", HUMAN, "the truth true of 'human' is not in the answer"),
        ("BCL2", GENE | {"name": "import os"}, "the name is not a short name"),
        ("2016", YEAR | {"ground_truth": ["soon"]}, "must be one number"),
        ("2016", YEAR | {"primitive": "NumericTolerance"}, "needs a tolerance above 0"),
        ("2016", YEAR | {"primitive": "NumericTolerance", "tolerance": 9, "tolerance_mode": "relative"}, "at most 0.5"),
        ("2016", DATE | {"ground_truth": ["2016"]}, "must be a whole date"),
        ("liquid", PHASE | {"choices": ["solid"]}, "at least two choices"),
        ("copper", METALS | {"ground_truth": []}, "is empty"),
    ],
)
def test_a_draft_with_a_flaw_fails(reference: str, field: dict[str, Any], problem: str) -> None:
    checked = check(reference, field)

    assert not checked.passed
    assert problem in " ".join(checked.problems)


def test_a_judge_does_not_see_the_whole_answer() -> None:
    field = GENE | {"ground_truth": ["inhibitor"], "description": "Whether it says selective inhibitor of BCL2"}

    checked = check("selective inhibitor of BCL2", field, question="What is BCL2?")

    assert any("contains the answer" in problem for problem in checked.problems)


def test_a_choice_without_choices_is_a_text() -> None:
    (declared,) = declare(proposal(GENE | {"primitive": "LiteralMatch"})).values()

    assert (declared["type"], declared["verify_with"]["type"]) == ("str", "ExactMatch")


def test_two_fields_of_one_name_are_refused() -> None:
    with pytest.raises(ProposalError, match="two fields have this name"):
        declare(proposal(GENE, GENE))


def test_values_of_a_draft_never_become_code() -> None:
    evil = '"); import os; os.system("touch hacked")  #'
    checked = check(evil, GENE | {"ground_truth": [evil], "synonyms": ["{{7*7}}", "__import__('os')"]})

    assert checked.bound is not None
    assert not checked.bound.template.has_code
    assert checked.bound.bind({"gene": evil}).verify()


def test_a_single_question_has_no_other_answer_to_try() -> None:
    checked = check_draft(Question(id="q", question="Which gene?"), "BCL2", proposal(GENE), ())

    assert checked.passed
    assert checked.unchecked == ("no other question has a different answer, so none was tried",)


def test_other_answers_are_of_the_same_kind_first() -> None:
    answers = ["6", "BCL2", "6.0", "1997", "yes", "8", "TRUE", "no"]
    questions = [Question(id=text, question=f"Which {text}?", raw_answer=text) for text in answers]

    assert [other.answer for other in choose_others(questions, 0)] == ["1997", "8"]
    assert [other.answer for other in choose_others(questions, 4)] == ["no", "8"]


@pytest.mark.parametrize(
    "change",
    [
        {"description": "The gene that the response names, " * 20},
        {"ground_truth": ["BCL2" * 200]},
        {"synonyms": ["x" * 1_000_000]},
        {"primitive": "LiteralMatch", "choices": ["BCL2", "y" * 501]},
    ],
)
def test_texts_of_a_draft_have_a_length_limit(change: dict[str, Any]) -> None:
    checked = check("BCL2", GENE | change)

    assert checked.answer is None
    assert "at most 500" in " ".join(checked.problems)
    assert len(" ".join(checked.problems)) < 300
