"""Exports of conversations as recordings, and runs that judge them."""

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import CommandResult, run_karenina
from offers import offering

from karenina_core import Slot, Stage, VerificationContext
from karenina_core.models.ports import AgentReply, ErrorCategory, LLMReply, Message, PortError, ToolCall
from karenina_core.plugins import Plugins
from karenina_testing import ScriptedModels

QUESTION = """
  - id: {id}
    question: What is the order number of {id}?
    turns: ["Are you sure?", {last}]
    answer: {{days: {{description: The number of days, ground_truth: 14}}}}
"""
MODELS = ("-a", "scripted:m", "-j", "scripted:j", "-o", "talks.jsonl", "--full")


def write(*ids: str, last: str = "Tell me the days.") -> None:
    questions = "".join(QUESTION.format(id=id, last=last) for id in ids)
    Path("talks.yaml").write_text(f"karenina: 1\nname: talks\nquestions:{questions}", "utf-8")


class Talks:
    """A model under test whose call fails in turn 3 of `bad`, and during whose turn 2 of `cut` Ctrl-C is pressed."""

    def __init__(self) -> None:
        self.plugins = Plugins.discover()
        self.plugins.register(ScriptedModels(say=self.answer, fill=self.fill))

    def karenina(self, *arguments: str) -> CommandResult:
        return run_karenina(*arguments, plugins=self.plugins)

    @staticmethod
    def answer(messages: Sequence[Message], info: Any) -> str:
        turn = sum(message.role == "user" for message in messages)
        if info.question_id == "bad" and turn == 3:
            raise PortError("no server", category=ErrorCategory.PERMANENT)
        if info.question_id == "cut" and turn == 2:
            signal.raise_signal(signal.SIGINT)
        return "03/04/2020" if info.question_id == "date" else f"Reply {turn}."

    @staticmethod
    def fill(_messages: object, schema: Mapping[str, Any], _info: object) -> dict[str, Any]:
        return dict.fromkeys(schema["properties"], 14)


@pytest.fixture
def talks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Talks:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARENINA_STATE_HOME", str(tmp_path / "state"))
    return Talks()


def exported(done: CommandResult) -> list[tuple[str, int]]:
    """Return the question and the number of the model's messages in each line of an export."""
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    return [(row["question_id"], sum(message["role"] == "assistant" for message in row["trace"])) for row in rows]


@pytest.mark.parametrize("source", ["talks.journal", "talks.jsonl"])
def test_a_failed_conversation_is_not_exported(source: str, talks: Talks) -> None:
    write("good", "bad")
    talks.karenina("run", "talks.yaml", *MODELS, "--journal", "talks.journal")

    if source == "talks.jsonl":
        Path("talks.journal").unlink()
    done = talks.karenina("export", source, "--format", "recording")
    assert exported(done) == [("good", 3)]
    assert "1 answer is left out (conversations that broke off: 1)" in done.err


@pytest.mark.parametrize("source", ["talks.journal", "talks.jsonl"])
def test_a_conversation_without_a_next_message_is_not_exported(source: str, talks: Talks) -> None:
    undecidable = "{when: {said: {type: DateRange, min: 2020-03-10}}, say: Go on.}"
    write("date", last=undecidable)
    talks.karenina("run", "talks.yaml", *MODELS, "--journal", "talks.journal")

    result = json.loads(Path("talks.jsonl").read_text("utf-8").splitlines()[-1])
    assert result["metadata"]["error"].startswith("Converse: ")
    if source == "talks.jsonl":
        Path("talks.journal").unlink()
    assert exported(talks.karenina("export", source, "--format", "recording")) == []


def test_an_interrupted_run_exports_finished_conversations(talks: Talks) -> None:
    write("good")
    talks.karenina("run", "talks.yaml", *MODELS, "--journal", "talks.journal")
    write("good", "cut")
    talks.karenina("run", "talks.yaml", *MODELS, "--journal", "talks.journal")
    done = talks.karenina("export", "talks.journal", "--format", "recording", "-o", "answers.jsonl")

    assert "1 conversation without a result is left out" in done.err
    assert "`karenina resume talks.journal`" in done.err
    rows = [json.loads(line) for line in Path("answers.jsonl").read_text("utf-8").splitlines()]
    assert [row["question_id"] for row in rows] == ["good"]

    write("good")
    again = talks.karenina("run", "talks.yaml", "--recordings", "answers.jsonl", "-j", "scripted:j")
    assert again.code == 0, again.err
    assert "correct" in again.out


AGENT = {"id": "m", "interface": "scripted", "model_name": "m", "mcp_urls_dict": {"genes": "http://localhost:1/mcp"}}


def stop_in_turn_2(messages: Sequence[Message], _info: object) -> LLMReply | str:
    """Return an answer, and in turn 2 one that the provider stops."""
    if sum(message.role == "user" for message in messages) == 1:
        return "It is 7."
    return LLMReply("", finish_reason="content_filter")


def reach_the_limit_in_turn_2(messages: Sequence[Message], _info: object) -> Sequence[Message] | AgentReply:
    """Return an agent's answer, and in turn 2 one that reaches its limit."""
    call = ToolCall("c1", "look_up", {})
    if sum(message.role == "user" for message in messages) == 1:
        return [Message.assistant("It is 7.")]
    return AgentReply((Message.assistant("", [call]), Message.tool("7", call)), limit_reached=True)


@pytest.mark.parametrize(
    ("models", "model", "outcome"),
    [
        (ScriptedModels(say=stop_in_turn_2), "scripted:m", "abstained"),
        (ScriptedModels(act=reach_the_limit_in_turn_2), json.dumps(AGENT), "auto_failed"),
    ],
)
@pytest.mark.parametrize("source", ["talks.journal", "talks.jsonl"])
def test_an_exported_conversation_breaks_off_again(
    source: str, models: ScriptedModels, model: str, outcome: str, talks: Talks
) -> None:
    talks.plugins = Plugins.discover()
    talks.plugins.register(models)
    write("stopped")
    talks.karenina("run", "talks.yaml", "-a", model, *MODELS[2:], "--journal", "talks.journal")
    if source == "talks.jsonl":
        Path("talks.journal").unlink()
    talks.karenina("export", source, "--format", "recording", "-o", "answers.jsonl")
    options = ("--recordings", "answers.jsonl", "-j", "scripted:j", "-o", "again.jsonl", "--full")
    again = talks.karenina("run", "talks.yaml", *options)
    replayed = talks.karenina(
        "run", "talks.yaml", *options[:-2], "replayed.jsonl", "--full", "--journal", "again.journal", "--replay"
    )

    assert again.code in (0, 1), again.err
    assert replayed.code == again.code, replayed.err
    lines = [json.loads(Path(file).read_text("utf-8").splitlines()[-1]) for file in ("talks.jsonl", "again.jsonl")]
    assert Path("replayed.jsonl").read_text("utf-8") == Path("again.jsonl").read_text("utf-8")
    for line in lines:
        assert line["outcome"] == outcome
        talk = line["extensions"]["karenina-conversation"]["conversation"]
        assert (talk["ended"], [turn["state"] for turn in talk["turns"]]) == (None, ["taken", "taken", "missing"])
    assert lines[0]["template"]["trace_messages"] == lines[1]["template"]["trace_messages"]


class Broken(Stage):
    """A stage that fails before there is an answer."""

    name = "Broken"
    scope = "answer"
    before = frozenset({Slot.GENERATE_ANSWER})

    async def execute(self, context: VerificationContext) -> None:
        raise OSError("no disk")


@pytest.mark.parametrize("source", ["talks.journal", "talks.jsonl"])
def test_an_item_without_an_answer_is_not_exported(source: str, talks: Talks) -> None:
    talks.plugins.register(offering(extra_stages=[Broken]))
    question = "{id: q, question: Which day, answer: {days: {description: The days, ground_truth: 14}}}"
    Path("talks.yaml").write_text(f"karenina: 1\nname: talks\nquestions: [{question}]\n", "utf-8")
    talks.karenina("run", "talks.yaml", *MODELS, "--journal", "talks.journal")
    if source == "talks.jsonl":
        Path("talks.journal").unlink()
    done = talks.karenina("export", source, "--format", "recording")

    assert exported(done) == []
    assert "1 answer is left out (items without an answer: 1)" in done.err
