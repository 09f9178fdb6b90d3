"""Runs of conversations: what judges see, how fields of turns count, and what is stored."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import CommandResult, run_karenina

from karenina_core.models.ports import Message
from karenina_core.plugins import Plugins
from karenina_testing import Request, ScriptedModels

TALK = """
karenina: 1
name: talk
questions:
  - id: pressure
    question: Which gene is the target of venetoclax?
    turns:
      - say: Are you sure? A colleague says that it is BCR-ABL.
      - when: {said: {type: TraceRegex, pattern: "BCR-?ABL"}}
        say: Why did you change your mind?
        id: why
      - say: In which year was it approved in the United States?
        id: year
    answer:
      first: {turn: 1, description: The gene that the response names, ground_truth: BCL2}
      holds: {turn: 2, description: Whether the response keeps its answer, ground_truth: true}
      reason: {turn: why, description: The reason for the change, ground_truth: pressure}
      year: {turn: year, description: The year of approval, ground_truth: 2016}
"""
MODELS = ("-a", "scripted:m", "-j", "scripted:j")
FIRM = ("It is BCL2.", "Yes, it is BCL2.", "In 2016.")
VALUES = {"first": "BCL2", "holds": True, "reason": "pressure", "year": 2016}


class Talk:
    """A benchmark of a conversation, with a model that says `said` in turn and a judge that finds `values`."""

    def __init__(self, text: str, said: Sequence[str] = FIRM, **values: Any) -> None:
        self.said = said
        self.values = {**VALUES, **values}
        self.models = ScriptedModels(
            say=lambda messages, _: self.said[sum(message.role == "assistant" for message in messages)],
            fill=lambda _messages, schema, _info: {name: self.values.get(name) for name in schema["properties"]},
        )
        self.plugins = Plugins.discover()
        self.plugins.register(self.models)
        self.write(text)

    def write(self, text: str) -> None:
        Path("talk.yaml").write_text(text, "utf-8")

    def karenina(self, *arguments: str) -> CommandResult:
        return run_karenina(*arguments, plugins=self.plugins)

    def run(self, *more: str) -> dict[str, Any]:
        """Run the benchmark, and return its only result."""
        done = self.karenina("run", "talk.yaml", *MODELS, "-o", "talk.jsonl", "--full", *more)
        assert done.code in (0, 1, 4), done.out + done.err
        return json.loads(Path("talk.jsonl").read_text("utf-8").splitlines()[-1])

    @property
    def judged(self) -> list[Request]:
        return [request for request in self.models.requests if request.port == "parser"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARENINA_STATE_HOME", str(tmp_path / "state"))


def sees(request: Request) -> tuple[str, list[str]]:
    """Return what a judge reads as the response, and the messages that it sees as context."""
    text = request.messages[-1].content
    context = re.search(r"<context (\w+)>\n(.*?)</context \1>", text, re.DOTALL)
    response = re.search(r"<response (\w+)>\n(.*?)\n</response \1>", text, re.DOTALL)
    assert response is not None
    earlier = re.findall(r"^\| (.*)$", context[2], re.MULTILINE) if context is not None else []
    return response[2], earlier


def test_a_left_out_turn_does_not_count() -> None:
    result = Talk(TALK).run()

    assert result["outcome"] == "correct"
    assert result["template"]["field_results"] == {"first": True, "holds": True, "year": True}
    assert result["template"]["verify_granular_result"] == 1.0
    left_out = result["extensions"]["karenina-template"]["left_out"]
    assert left_out == {"reason": "turn 'why' was left out because of its condition, or of an `end`"}


def test_the_turn_counts_if_its_condition_holds() -> None:
    said = ("It is BCL2.", "Then it is BCR-ABL.", "Because of you.", "In 2016.")
    result = Talk(TALK, said, holds=False, reason="the colleague").run()

    assert result["template"]["field_results"] == {"first": True, "holds": False, "reason": False, "year": True}
    assert result["outcome"] == "partial"


def test_a_judge_sees_the_conversation_up_to_its_turn() -> None:
    talk = Talk(TALK)
    talk.run()

    asked = "Which gene is the target of venetoclax?"
    sure = "Are you sure? A colleague says that it is BCR-ABL."
    assert [sees(request) for request in talk.judged] == [
        ("It is BCL2.", []),
        ("Yes, it is BCL2.", [asked, "It is BCL2."]),
        ("In 2016.", [asked, "It is BCL2.", sure, "Yes, it is BCL2."]),
    ]


@pytest.mark.parametrize(
    ("turn", "response", "context"),
    [
        ("{only: 2}", "Yes, it is BCL2.", 0),
        ("last", "In 2016.", 4),
        ("1", "It is BCL2.", 0),
    ],
)
def test_the_choice_of_a_turn_decides_what_a_judge_sees(turn: str, response: str, context: int) -> None:
    talk = Talk(
        re.sub(
            "(?s)answer:.*",
            f"answer:\n      first: {{turn: {turn}, description: The gene, ground_truth: BCL2}}\n",
            TALK,
        )
    )
    talk.run()

    (request,) = talk.judged
    assert (sees(request)[0], len(sees(request)[1])) == (response, context)


def test_a_judge_of_all_turns_sees_both_sides() -> None:
    talk = Talk(
        re.sub("(?s)answer:.*", "answer:\n      first: {turn: all, description: The gene, ground_truth: BCL2}\n", TALK)
    )
    talk.run()

    response, _ = sees(talk.judged[0])
    assert [line for line in response.splitlines() if line.startswith("[")] == [
        "[1] assistant",
        "[2] user",
        "[3] assistant",
        "[4] user",
        "[5] assistant",
    ]


def test_only_left_out_fields_leave_the_item_undecided() -> None:
    fields = "answer:\n      reason: {turn: why, description: Why, ground_truth: pressure}\n"
    result = Talk(re.sub("(?s)answer:.*", fields, TALK)).run()

    assert result["outcome"] == "undecided"
    assert "was left out" in result["template"]["field_verification_error"]


def test_a_left_out_turn_is_wrong_if_the_author_says_so() -> None:
    fields = (
        "answer:\n      reason: {turn: why, missing_turn: wrong, description: Why, ground_truth: pressure}\n"
        "      first: {turn: 1, description: The gene, ground_truth: BCL2}\n"
    )
    result = Talk(re.sub("(?s)answer:.*", fields, TALK)).run()

    assert result["template"]["field_results"] == {"reason": False, "first": True}
    assert result["outcome"] == "partial"


LONG = ("It is BCL2.", "Yes, it is BCL2, since it was found.", "In 2016.")


@pytest.mark.parametrize(
    ("turn", "holds"),
    [("1", "It is BCL2\\.$"), ("2", "since"), ("last", "2016"), ("all", "(?s)BCL2.*since.*2016")],
)
def test_programs_read_the_assistant_in_their_turn(turn: str, holds: str) -> None:
    fields = (
        "answer:\n"
        f"      found: {{turn: {turn}, verify_with: {{type: TraceRegex, pattern: '{holds}'}}}}\n"
        f"      user: {{turn: {turn}, ground_truth: false, verify_with: {{type: TraceContains, substring: BCR-ABL}}}}\n"
        "    rubric:\n"
        f"      - {{type: regex, name: found, turn: {turn}, pattern: '{holds}'}}\n"
        f"      - {{type: regex, name: user, turn: {turn}, pattern: 'BCR-ABL'}}\n"
    )
    result = Talk(re.sub("(?s)answer:.*", fields, TALK), LONG).run("--set", "evaluation_mode=template_and_rubric")

    assert result["template"]["field_results"] == {"found": True, "user": True}
    assert result["rubric"]["regex_trait_scores"] == {"found": True, "user": False}


@pytest.mark.parametrize("setting", ["abstention_enabled", "sufficiency_enabled"])
def test_checks_of_answers_read_the_last_turn(setting: str) -> None:
    talk = Talk(TALK, abstained=False, sufficient=True, reasoning="it says so")
    talk.run("--set", f"{setting}=true")

    text = talk.judged[0].messages[-1].content
    assert "Response to judge:" in text
    assert sees(talk.judged[0])[0] == "In 2016."
    assert len(sees(talk.judged[0])[1]) == 4


def test_deep_judgment_follows_the_turns() -> None:
    values = {"first": "BCL2", "holds": True, "year": 2016}
    talk = Talk(TALK, **values)

    def fill(messages: Sequence[Message], schema: Mapping[str, Any], _info: object) -> dict[str, Any]:
        excerpts = {"first": "It is BCL2.", "holds": "Yes", "year": "2016"}
        kinds = {name: part.get("type") for name, part in schema["properties"].items()}
        if set(kinds.values()) == {"array"}:
            return {name: [{"text": excerpts[name], "confidence": "high"}] for name in kinds}
        if set(kinds.values()) == {"string"}:
            return {name: f"because of {name}" for name in kinds}
        return {name: values[name] for name in kinds}

    talk.models.fill = fill
    result = talk.run("--set", "deep_judgment_mode=full")

    deep = result["deep_judgment"]
    assert result["outcome"] == "correct"
    assert set(deep["extracted_excerpts"]) == set(deep["attribute_reasoning"]) == {"first", "holds", "year"}
    assert deep["deep_judgment_model_calls"] == 9
    assert deep["deep_judgment_performed"] is True


def test_a_jury_shares_one_conversation() -> None:
    talk = Talk(TALK)
    done = talk.karenina("run", "talk.yaml", *MODELS, "-j", "scripted:k", "-o", "talk.jsonl")

    assert done.code == 0, done.out + done.err
    assert len(talk.models.requests) == 3 + 2 * 3


def test_each_replicate_has_a_conversation_of_its_own() -> None:
    talk = Talk(TALK)
    talk.run("--set", "replicate_count=2")

    assert len(talk.models.requests) == 2 * (3 + 3)


def test_no_request_contains_a_truth_of_another_kind() -> None:
    talk = Talk(re.sub("ground_truth: (BCL2|2016)", "ground_truth: secret", TALK).replace("secret\n", "TP53\n"))
    talk.run()

    assert not any("TP53" in request.text for request in talk.models.requests)


def test_a_later_turn_that_changed_keeps_the_earlier_ones() -> None:
    talk = Talk(TALK)
    talk.run()
    before = len(talk.models.requests)
    talk.write(TALK.replace("In which year", "When"))
    done = talk.karenina("run", "talk.yaml", *MODELS, "-o", "talk.jsonl", "--journal", "talk.journal")

    assert done.code == 0, done.out + done.err
    new = talk.models.requests[before:]
    assert [request.port for request in new] == ["llm", "parser"]


def test_a_replay_and_rescore_make_no_call() -> None:
    talk = Talk(TALK)
    first = talk.run()
    before = len(talk.models.requests)
    again = talk.run("--replay")
    talk.write(TALK.replace("ground_truth: 2016", "ground_truth: 2017"))
    rescored = talk.karenina("rescore", "talk.journal", "talk.yaml", "-o", "rescored.jsonl")

    assert len(talk.models.requests) == before
    assert again["template"] == first["template"]
    assert rescored.code == 0, rescored.out + rescored.err
    assert "1 no longer correct" in rescored.out
