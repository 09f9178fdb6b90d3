"""The second look of a small judge: what it sees, and when its replies replace the value that it extracted first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parse_runs import parse

from karenina_core import Question, VerificationConfig
from karenina_core.data.trust import Trust
from karenina_core.models.ports import ParserReply
from karenina_template.parse_template import ParseTemplate
from karenina_template.second_look.checked_values import LISTED
from karenina_template.second_look.masked_values import LETTERS, MASKED, NONE, MaskedText
from karenina_testing import StageRun

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
    """A judge that extracts `first`, lists `values`, and chooses among masked values by the beginning of the text.

    A reply is an option, or the log-probability of each option. `seen` contains the masked texts, `counts` the minimum
    number of values in each list that it was asked for.
    """

    def __init__(
        self,
        first: Mapping[str, Any],
        replies: Mapping[str, str | Mapping[str, float]] | None = None,
        values: Sequence[str] = (),
    ) -> None:
        self.first, self.replies, self.values = first, replies or {}, values
        self.seen: list[str] = []
        self.counts: list[int] = []

    def __call__(self, messages: Any, schema: Mapping[str, Any], info: Any = None) -> Mapping[str, Any] | ParserReply:
        shown = messages[-1].content
        if set(schema["properties"]) == {"values"}:
            self.counts.append(schema["properties"]["values"]["minItems"])
            return {"values": [*self.values, *[f"no value {count}" for count in range(4)]][:3]}
        if set(schema["properties"]) != {"value"}:
            return self.first
        self.seen.append(shown)
        reply = next(reply for start, reply in self.replies.items() if shown.startswith(start))
        if isinstance(reply, str):
            return {"value": reply}
        chosen = max(reply, key=lambda option: reply[option])
        return ParserReply(json.dumps({"value": chosen}), "json_schema", option_logprobs=reply)


def extracted(judge: Judge, response: str, source: str = ONE_FIELD, **settings: Any) -> tuple[Any, StageRun]:
    """Return the template's first field as the judge filled it, and the run of the stage."""
    values, found = parse(judge, response, source, "Which gene?", **settings)
    return next(iter(values.values())), found


def test_the_letter_that_the_judge_chooses_replaces_the_value() -> None:
    """The judge sees letters in place of the values, in both orders, and its value for the result is recorded."""
    judge = Judge({"rejected": ["BCL2"], "gene": "TP53"}, {"Many say X": "Y", "Many say Y": "X"})

    gene, found = extracted(judge, "Many say TP53, which is wrong; it is BCL2.")

    assert gene == "BCL2"
    assert judge.seen == ["Many say X, which is wrong; it is Y.", "Many say Y, which is wrong; it is X."]
    assert found.field("parsing") == {"rejected": ["BCL2"], "replaced": {"gene": "TP53"}}


@pytest.mark.parametrize(
    ("first", "values", "replies", "response", "expected"),
    [
        pytest.param(
            {"rejected": ["TP53"], "gene": "BCL2"},
            [],
            {"Many say X": "X", "Many say Y": "X"},
            "Many say TP53; it is BCL2.",
            "BCL2",
            id="replies that follow the letter",
        ),
        pytest.param(
            {"rejected": ["BCL2"], "gene": "TP53"},
            [],
            {"Many say X": {"X": -0.6, "Y": -0.8, NONE: -4}, "Many say Y": {"X": -0.2, "Y": -1.7, NONE: -4}},
            "Many say TP53; it is BCL2.",
            "BCL2",
            id="the mean of the log-probabilities",
        ),
        pytest.param(
            {"rejected": ["TP53"], "gene": "BCL2"}, [], {"": NONE}, "Not TP53, nor BCL2.", None, id="none of two values"
        ),
        pytest.param({"rejected": [], "gene": "TP53"}, [], {"": NONE}, "It is not TP53.", None, id="none of one value"),
        pytest.param({"rejected": [], "gene": "TP53"}, [], {"": "X"}, "I guess TP53.", "TP53", id="the value itself"),
        pytest.param(
            {"rejected": [], "gene": "tp53"}, [], {"": "X"}, "I guess TP53.", "tp53", id="the value in its own words"
        ),
        pytest.param(
            {"rejected": [], "gene": "TP53"},
            ["TP53", "BCL2"],
            {"X? No: it is BCL2": "BCL2", "X? No: it is Y": "Y", "Y? No: it is X": "X"},
            "TP53? No: it is BCL2.",
            "BCL2",
            id="another value, in its own words",
        ),
        pytest.param(
            {"rejected": [], "gene": "TP53"},
            ["TP53", "be surprised"],
            {"It is X, do not be": "X", "It is X, do not Y": "Y", "It is Y": "X", "It is X": "X"},
            "It is TP53, do not be surprised.",
            "TP53",
            id="words that are no value",
        ),
        pytest.param(
            {"rejected": [], "gene": "TP53"},
            ["TP53", "gene"],
            {"The gene is X": "X"},
            "The gene is TP53.",
            "TP53",
            id="words of the question",
        ),
        pytest.param({"rejected": [], "gene": "TP53"}, ["MYC"], {"": "X"}, "I guess TP53.", "TP53", id="absent words"),
        pytest.param(
            {"rejected": [], "gene": SENTENCE},
            ["BCL2"],
            {"": {"X": -1, "BCL2": -1, NONE: -3}},
            SENTENCE,
            "BCL2",
            id="a value of a sentence",
        ),
        pytest.param({"rejected": [], "gene": SENTENCE}, [], {}, SENTENCE, SENTENCE, id="a sentence stays"),
        pytest.param(
            {"rejected": [], "gene": "No. Not TP53."}, ["TP53"], {"": NONE}, "No. Not TP53.", None, id="a bare sentence"
        ),
    ],
)
def test_a_second_look(
    first: Mapping[str, Any], values: list[str], replies: Mapping[str, Any], response: str, expected: str
) -> None:
    assert extracted(Judge(first, replies, values), response)[0] == expected


@pytest.mark.parametrize(
    ("rejected", "other", "expected"),
    [
        ([], -1.5, "TP53"),
        ([], -1.3, "BCL2"),
        (["tp53"], -1.5, "TP53"),
        (["MYC"], -1.5, "BCL2"),
    ],
)
def test_without_a_rejected_value_another_one_must_lead(rejected: list[str], other: float, expected: str) -> None:
    """The mean of the extracted value is -2.5: it is first masked as X, and then as Y."""
    first, second = {"X": -2.5, "Y": other, NONE: -6.0}, {"X": other, "Y": -2.5, NONE: -6.0}
    replies = {"It is X, or BCL2": "BCL2", "It is X": first, "It is Y": second}
    judge = Judge({"rejected": rejected, "gene": "TP53"}, replies, ["TP53", "BCL2"])

    assert extracted(judge, "It is TP53, or BCL2.")[0] == expected


@pytest.mark.parametrize(("other", "expected"), [(-1.5, "whole"), (-1.7, "TP53")])
def test_without_a_rejected_value_one_of_a_sentence_must_lead(other: float, expected: str) -> None:
    whole = "It is TP53, or BCL2, as far as I can tell."
    first, second = {"X": -1.0, "Y": other, NONE: -6.0}, {"X": other, "Y": -1.0, NONE: -6.0}
    replies = {"It is TP53": "TP53", "It is X": first, "It is Y": second}
    judge = Judge({"rejected": [], "gene": whole}, replies, ["TP53", "BCL2"])

    assert extracted(judge, whole)[0] == (whole if expected == "whole" else expected)


@pytest.mark.parametrize(
    ("rejected", "none", "expected"), [([], -1.5, "TP53"), ([], -0.5, None), (["TP53"], -1.5, None)]
)
def test_without_a_rejected_value_none_must_lead(rejected: list[str], none: float, expected: str | None) -> None:
    judge = Judge({"rejected": rejected, "gene": "TP53"}, {"": {"X": -2.0, NONE: none}})

    assert extracted(judge, "It is TP53, they say.")[0] == expected


def test_a_list_with_one_value_is_asked_for_again() -> None:
    judge = Judge({"rejected": [], "gene": "TP53"}, {"": "X"}, ["TP53"])

    extracted(judge, "I guess TP53.")

    assert judge.counts == [2, 3]


def test_an_unusable_reply_leaves_the_value_and_is_recorded() -> None:
    judge = Judge({"rejected": ["BCL2"], "gene": "TP53"}, {"": "neither"})

    gene, found = extracted(judge, "Many say TP53, which is wrong; it is BCL2.")

    assert gene == "TP53"
    assert "no usable reply" in found.field("parsing")["not_checked"]


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

    assert len(judge.seen) == 2 * looks


@pytest.mark.parametrize(
    ("setting", "warned"), [(True, "has no effect on 2 of 4 templates"), (None, None), (False, None)]
)
def test_a_setting_without_effect_is_a_warning(
    setting: bool | None, warned: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    sources = (ONE_FIELD, TWO_FIELDS, NUMBER, CHOICE, None)
    questions = [
        Question(question=f"Which? {number}", raw_answer="It", answer_template=source)
        for number, source in enumerate(sources)
    ]

    assert not list(ParseTemplate().before_run(VerificationConfig(check_values=setting), questions, Trust.all()))

    assert [warned in message for message in caplog.messages] == ([True] if warned else [])


def test_only_sentences_near_a_value_are_shown() -> None:
    text = MaskedText("One. Two. Three. Four TP53. Five. Six. Seven. Eight.", ["tp53"])

    assert text.shown({"TP53": "X"}) == "Two. Three. Four X. Five. Six."


def test_longer_values_come_first_and_hide_shorter_ones() -> None:
    text = MaskedText("Anna  Holm met Holm.", ["Holm", "“anna holm”", "Berg"])

    assert text.values == ("Anna  Holm", "Holm")
    assert text.shown({"Anna  Holm": "X", "Holm": "Y"}) == "X met Y."
    assert text.wording("holm.") == "Holm"
    assert text.wording("Berg") is None


def test_values_end_at_words_or_in_scripts_without_spaces() -> None:
    assert MaskedText("Bergen, not bergens.", ["Bergen"]).shown({"Bergen": "X"}) == "X, not bergens."
    assert MaskedText("很多人以为是Rev\uff0c其实是東京。", ["Rev", "東京"]).values == ("Rev", "東京")


def test_values_that_always_follow_after_a_comma_are_one() -> None:
    text = MaskedText("Not Season 3, Episode 22 but Season 4, as in Oslo, Norway or Oslo.", ["Season 3", "Episode 22"])

    assert text.joined == ("Season 3, Episode 22",)
    assert MaskedText("In Oslo, Norway or Oslo.", ["Oslo", "Norway"]).joined == ("Oslo", "Norway")


@given(st.text(), st.lists(st.text(max_size=12), max_size=4))
def test_any_text_can_be_masked(response: str, values: list[str]) -> None:
    """No value is shown where it was found, and no text is an error."""
    text = MaskedText(response, values)

    shown = text.shown(dict.fromkeys(text.values, ""))

    assert all(value in response for value in [*text.values, *text.joined])
    assert len(shown) <= len(response)


def test_listed_examples_are_in_their_responses() -> None:
    for asked, reply in LISTED.examples:
        assert all(value in asked for value in json.loads(reply)["values"])


def test_the_examples_are_replies_that_the_judge_may_give() -> None:
    for asked, reply in MASKED.examples:
        value = json.loads(reply)["value"]
        assert value == NONE or value in asked
        assert value not in LETTERS or asked.count(value) >= 1


def test_values_are_found_in_other_code_points() -> None:
    text = MaskedText(
        "It was Crohn\u2019s disease, not IL\u20116 or cafe\u0301.", ["Crohn's disease", "IL-6", "caf\u00e9"]
    )
    assert text.values == ("Crohn\u2019s disease", "IL\u20116", "cafe\u0301")
    assert text.wording("il\u20106") == "IL\u20116"
    assert text.shown(dict(zip(text.values, "XYZ", strict=True))) == "It was X, not Y or Z."
