"""The second look of a small judge: what it sees, and when its replies replace the value that it extracted first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core import ArtifactKey, Question
from karenina_core import ArtifactKeys as Keys
from karenina_template.masked_text import MaskedText
from karenina_template.masked_values import LETTERS, MASKED, NONE
from karenina_template.parse_template import ParseTemplate
from karenina_template.templates import load_template
from karenina_testing import ScriptedModels, StageRun, run_stage

ONE_FIELD = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())
"""
TWO_FIELDS = f"""{ONE_FIELD}
    drug: str = VerifiedField(description="The drug", ground_truth="venetoclax", verify_with=ExactMatch())
"""
NUMBER = """
class Answer(BaseAnswer):
    count: int = VerifiedField(description="The count", ground_truth=2, verify_with=NumericExact())
"""
CHOICE = """
class Answer(BaseAnswer):
    gene: Literal["BCL2", "TP53"] = VerifiedField(description="It", ground_truth="BCL2", verify_with=ExactMatch())
"""
SENTENCE = "It may well be, after all that one has read, BCL2."


class Judge:
    """A judge that extracts `first`, and replies to a masked text as `replies` say, by its beginning.

    `seen` are the masked texts.
    """

    def __init__(self, first: Mapping[str, Any], replies: Mapping[str, str] | None = None) -> None:
        self.first, self.replies = first, replies or {}
        self.seen: list[str] = []

    def __call__(self, messages: Any, schema: Mapping[str, Any], info: Any = None) -> Mapping[str, Any]:
        if set(schema["properties"]) != {"value"}:
            return self.first
        shown = messages[-1].content
        self.seen.append(shown)
        return {"value": next(reply for start, reply in self.replies.items() if shown.startswith(start))}


def extracted(judge: Judge, response: str, source: str = ONE_FIELD, **settings: Any) -> tuple[Any, StageRun]:
    """Return the template's first field as the judge filled it, and the run of the stage."""
    template = load_template(source).for_question("q1")
    artifacts: dict[ArtifactKey[Any], object] = {
        Keys.RAW_ANSWER_CLASS: template.answer_class,
        Keys.ANSWER_CLASS: template,
        Keys.RAW_LLM_RESPONSE: response,
    }
    models = ScriptedModels(fill=judge)
    settings = {"list_rejected": True, "check_values": True, **settings}
    question = Question(question="Which gene?", raw_answer="BCL2")
    found = asyncio.run(run_stage(ParseTemplate, question=question, artifacts=artifacts, models=models, **settings))
    assert found.error is None
    answer = found.artifact(Keys.PARSED_ANSWER)
    assert answer is not None
    return getattr(answer, next(iter(template.judge_fields))), found


def test_two_agreeing_replies_replace_the_value() -> None:
    """The judge sees letters in place of the values, in both orders, and its value for the result is recorded."""
    judge = Judge({"rejected": ["BCL2"], "gene": "TP53"}, {"Many say X": "Y", "Many say Y": "X"})

    gene, found = extracted(judge, "Many say TP53, which is wrong; it is BCL2.")

    assert gene == "BCL2"
    assert judge.seen == ["Many say X, which is wrong; it is Y.", "Many say Y, which is wrong; it is X."]
    assert found.field("parsing") == {"rejected": ["BCL2"], "replaced": "TP53"}


@pytest.mark.parametrize(
    ("first", "replies", "response", "expected"),
    [
        pytest.param(
            {"rejected": ["TP53"], "gene": "BCL2"},
            {"Many say X": "X", "Many say Y": "X", "Many say A": "B", "Many say B": "B"},
            "Many say TP53; it is BCL2.",
            "BCL2",
            id="replies that follow the letter",
        ),
        pytest.param(
            {"rejected": ["BCL2"], "gene": "TP53"},
            {"Many say X": "X", "Many say Y": "X", "Many say A": "B", "Many say B": "A"},
            "Many say TP53; it is BCL2.",
            "BCL2",
            id="agreement with other letters",
        ),
        pytest.param(
            {"rejected": ["TP53"], "gene": "BCL2"}, {"": NONE}, "Not TP53, nor BCL2.", None, id="none of two values"
        ),
        pytest.param({"rejected": [], "gene": "TP53"}, {"": NONE}, "It is not TP53.", None, id="none of one value"),
        pytest.param({"rejected": [], "gene": "TP53"}, {"": "X"}, "I guess TP53.", "TP53", id="the value itself"),
        pytest.param(
            {"rejected": [], "gene": "TP53"},
            {"X? No: it is BCL2": "BCL2", "X? No: it is Y": "Y", "Y? No: it is X": "X"},
            "TP53? No: it is BCL2.",
            "BCL2",
            id="another value, in words",
        ),
        pytest.param(
            {"rejected": [], "gene": "TP53"}, {"": "MYC"}, "I guess TP53.", "TP53", id="words that are not there"
        ),
        pytest.param({"rejected": ["BCL2"], "gene": SENTENCE}, {"": "X"}, SENTENCE, "BCL2", id="a value of a sentence"),
        pytest.param({"rejected": [], "gene": SENTENCE}, {"": "BCL2"}, SENTENCE, SENTENCE, id="a sentence stays"),
        pytest.param({"rejected": [], "gene": SENTENCE}, {"": NONE}, SENTENCE, None, id="none in a sentence"),
    ],
)
def test_a_second_look(first: Mapping[str, Any], replies: Mapping[str, str], response: str, expected: str) -> None:
    assert extracted(Judge(first, replies), response)[0] == expected


@pytest.mark.parametrize(
    ("source", "first", "response"),
    [
        pytest.param(ONE_FIELD, {"gene": "BCL2"}, "BCL2.", id="nothing beside the value"),
        pytest.param(ONE_FIELD, {"gene": None}, "I do not know.", id="no value"),
        pytest.param(ONE_FIELD, {"gene": "bcl-2"}, "The second of the family.", id="in other words"),
        pytest.param(TWO_FIELDS, {"gene": "BCL2", "drug": None}, "Perhaps BCL2.", id="two fields"),
        pytest.param(NUMBER, {"count": 2}, "It has 2 of them.", id="a number"),
        pytest.param(CHOICE, {"gene": "BCL2"}, "Perhaps BCL2.", id="a choice"),
    ],
)
def test_there_is_no_second_look(source: str, first: Mapping[str, Any], response: str) -> None:
    judge = Judge({"rejected": [], **first})

    assert extracted(judge, response, source)[0] == next(iter(first.values()))
    assert judge.seen == []


@pytest.mark.parametrize(("setting", "looks"), [(None, 0), (True, 1), (False, 0)])
def test_only_small_judges_look_twice_by_default(setting: bool | None, looks: int) -> None:
    judge = Judge({"gene": "BCL2"}, {"": "X"})

    extracted(judge, "Perhaps BCL2.", list_rejected=None, check_values=setting)

    assert len(judge.seen) == looks


def test_only_sentences_near_a_value_are_shown() -> None:
    text = MaskedText("One. Two. Three. Four TP53. Five. Six. Seven. Eight.", ["tp53"])

    assert text.shown({"TP53": "X"}) == "Two. Three. Four X. Five. Six."


def test_longer_values_come_first_and_hide_shorter_ones() -> None:
    text = MaskedText("Anna  Holm met Holm.", ["Holm", "“anna holm”", "Berg"])

    assert text.values == ("Anna  Holm", "Holm")
    assert text.shown({"Anna  Holm": "X", "Holm": "Y"}) == "X met Y."
    assert text.wording("holm.") == "Holm"
    assert text.wording("Berg") is None


@given(st.text(), st.lists(st.text(max_size=12), max_size=4))
def test_any_text_can_be_masked(response: str, values: list[str]) -> None:
    """No value is shown where it was found, and no text is an error."""
    text = MaskedText(response, values)

    shown = text.shown(dict.fromkeys(text.values, ""))

    assert all(value in response for value in text.values)
    assert len(shown) <= len(response)


def test_the_examples_are_replies_that_the_judge_may_give() -> None:
    for asked, reply in MASKED.examples:
        value = json.loads(reply)["value"]
        assert value == NONE or value in asked
        assert value not in LETTERS or asked.count(value) >= 1
