"""Recorded answers: found by id, by text, by replicate."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import (
    AgentOptions,
    AgentReply,
    CallInfo,
    ErrorCategory,
    LLMReply,
    Message,
    PortError,
    Usage,
)
from karenina_manual import plugin
from karenina_manual.ports import RecordedAgent, RecordedLLM

pytestmark = pytest.mark.anyio
SPEC = plugin.karenina_adapters()[0]
DATA = Path(__file__).parents[4] / "shared" / "data"
USE = {"type": "tool_use", "id": "c", "name": "lookup", "input": {}}
OPENAI = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "Where?"},
    {"role": "assistant", "content": "I look."},
    {"role": "user", "content": "Well?"},
    {"role": "assistant", "content": "On 17q21."},
]
ANTHROPIC = {"messages": [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": [USE]}]}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def model(traces: Any, **extra: str) -> ModelConfig:
    return ModelConfig(id="m", interface="manual", model_name="recorded", manual_traces=traces, extra=extra)


def lines(path: Path, *rows: object) -> Path:
    file = path / "answers.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")
    return file


async def answer(traces: Any, question_id: str = "q1", question: str = "Where?", replicate: int = 1) -> str:
    info = CallInfo(question_id, question, replicate)
    reply = await RecordedLLM(model(traces)).invoke([Message.user(question)], info=info)
    assert reply == LLMReply(reply.text, Usage(calls=0))
    return reply.text


async def test_a_run_reads_the_recordings_once(tmp_path: Path) -> None:
    file = lines(tmp_path, {"id": "q1", "response": "BCL2"})
    port, needs_agent = RecordedLLM(model(file)), SPEC.needs_agent
    assert needs_agent is not None
    asks_agent = needs_agent(model(file))
    info = CallInfo("q1", "Where?")
    assert (await port.invoke([], info=info)).text == "BCL2"
    assert not asks_agent(info)
    lines(tmp_path, {"id": "q1", "response": ANTHROPIC})
    assert (await port.invoke([], info=info)).text == "BCL2"
    assert not asks_agent(info)
    assert needs_agent(model(file))(info)  # another run reads the file again


@pytest.mark.parametrize(
    "row", [{"question_id": "q1"}, {"id": "q1"}, {"question": "Where?"}, {"id": 1, "question": "Where?"}]
)
@pytest.mark.parametrize("column", ["response", "answer", "trace", "messages"])
async def test_a_row_is_found_by_id_or_by_text(row: dict[str, Any], column: str, tmp_path: Path) -> None:
    file = lines(tmp_path, {"id": "q0", "response": "no"}, {**row, column: "On 17q21."})
    assert await answer(file) == "On 17q21."


@pytest.mark.parametrize("key", ["q1", "Where?"])
@pytest.mark.parametrize("as_file", [True, False])
async def test_a_mapping_has_ids_or_texts_as_keys(key: str, as_file: bool, tmp_path: Path) -> None:
    traces: Any = {key: "On 17q21.", "other": "no"}
    if as_file:
        file = tmp_path / "answers.json"
        file.write_text("\ufeff" + json.dumps(traces), encoding="utf-8")
        traces = file
    assert await answer(traces) == "On 17q21."


async def test_the_id_counts_before_the_text(tmp_path: Path) -> None:
    rows = {"id": "q2", "question": "Where?", "response": "by text"}, {"id": "q1", "response": "by id"}
    assert await answer(lines(tmp_path, *rows)) == "by id"
    assert await answer({"Where?": "by text", "q1": "by id"}) == "by id"


async def test_columns_can_be_named(tmp_path: Path) -> None:
    file = lines(tmp_path, {"key": 7, "prompt": "Where?", "said": "On 17q21.", "response": "no", "id": "q1"})
    configured = model(file, id_field="key", question_field="prompt", response_field="said")
    for info in (CallInfo("7"), CallInfo("x", "Where?")):
        assert (await RecordedLLM(configured).invoke([], info=info)).text == "On 17q21."


async def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    assert await answer(lines(tmp_path, {"id": "q1", "response": "first"})) == "first"
    assert await answer(lines(tmp_path, {"id": "q1", "response": "the second"})) == "the second"


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": "q1", "replicate": 1, "response": "a"}, {"id": "q1", "replicate": 2, "response": "b"}],
        [{"id": "q1", "response": {"replicates": ["a", "b"]}}],
        [{"id": "q1", "replicates": ["a", "b"]}],
        [
            {"question": "Where?", "replicate": 1, "response": "a"},
            {"question": "Where?", "replicate": 2, "response": "b"},
        ],
    ],
)
async def test_each_replicate_has_its_own_recording(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    file = lines(tmp_path, *rows)
    assert [await answer(file, replicate=number) for number in (1, 2)] == ["a", "b"]
    with pytest.raises(PortError, match="no recorded answer for replicate 3"):
        await answer(file, replicate=3)


JOURNAL = [
    {"question_id": "q1", "question": "Where?", "replicate": 1, "model": "mine", "text": "On 17q21."},
    {"question_id": "q1", "question": "Where?", "replicate": 2, "model": "mine", "text": "On 13q13."},
    {
        "question_id": "q2",
        "question": "Which?",
        "replicate": 1,
        "model": "mine",
        "trace": [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c", "name": "lookup", "arguments": {"of": "x"}}],
            },
            {"role": "tool", "content": "none", "tool_call_id": "c", "tool_name": "lookup", "is_error": True},
            {"role": "assistant", "content": "BRCA1.", "reasoning": "It must be."},
        ],
    },
    {"question_id": "q1", "question": "Where?", "replicate": 1, "model": "other", "text": "Who knows?"},
]


async def test_the_export_of_a_journal_is_a_recording(tmp_path: Path) -> None:
    configured = model(lines(tmp_path, *JOURNAL), model="mine")
    assert SPEC.check is not None
    assert SPEC.needs_agent is not None
    SPEC.check(configured)
    for info in (CallInfo("q1", "Where?"), CallInfo("renamed", "Where?")):
        said = [
            (await RecordedLLM(configured).invoke([], info=replace(info, replicate=number))).text for number in (1, 2)
        ]
        assert said == ["On 17q21.", "On 13q13."]
        with pytest.raises(
            PortError, match=r"no recorded answer for replicate 3 .* only these replicates are recorded: 1, 2"
        ):
            await RecordedLLM(configured).invoke([], info=replace(info, replicate=3))
    assert [SPEC.needs_agent(configured)(CallInfo(id)) for id in ("q1", "q2")] == [False, True]
    reply = await RecordedAgent(configured).run([], AgentOptions(), info=CallInfo("q2"))
    assert [message.to_dict() for message in reply.trace] == JOURNAL[2]["trace"]


async def test_another_model_of_the_same_export_said_something_else(tmp_path: Path) -> None:
    configured = model(lines(tmp_path, *JOURNAL), model="other")
    assert (await RecordedLLM(configured).invoke([], info=CallInfo("q1"))).text == "Who knows?"


async def test_recorded_traffic_is_a_conversation(tmp_path: Path) -> None:
    asked = {"role": "user", "content": "Where?"}
    answered = {"role": "assistant", "content": "On 17q21."}
    exchanges = [{"request": {"messages": [asked]}, "response": {"choices": [{"message": answered}]}}]
    file = lines(tmp_path, {"id": "q1", "exchanges": exchanges})
    assert await answer(file) == await answer({"q1": {"exchanges": exchanges}}) == "On 17q21."
    reply = await RecordedAgent(model(file)).run([], AgentOptions(), info=CallInfo("q1"))
    assert reply.trace == (Message.assistant("On 17q21."),)


async def test_one_recording_serves_every_replicate() -> None:
    assert [await answer({"q1": "a"}, replicate=number) for number in (1, 2, 9)] == ["a"] * 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"id": "q2", "response": "x"}],
            r"'q1' \('Where\?'\) in .*answers.jsonl, which contains 1 recording",
        ),
        ([{"id": "q1", "response": None}], r"question 'q1' .* is null \(.*answers.jsonl, line 1\)"),
        ([{"id": "q1", "replicates": ["a", None]}], "is null"),
        ([{"id": "q1", "error": "timed out"}], r"is null because of the error 'timed out' \(.*answers.jsonl, line 1\)"),
        (
            [{"id": "a", "question": "Where?", "response": "x"}, {"id": "b", "question": "Where?", "response": "y"}],
            "2 different recorded answers for the text of .*line 1",
        ),
    ],
)
async def test_a_missing_recording_is_an_error_of_that_item(
    rows: list[dict[str, Any]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(PortError, match=message) as caught:
        await answer(lines(tmp_path, *rows), replicate=2)
    assert caught.value.category is ErrorCategory.PERMANENT


async def test_a_missing_key_of_a_mapping_names_their_number() -> None:
    with pytest.raises(
        PortError, match=r"no recorded answer for question 'q1' .* of model 'm', which contains 2 recordings"
    ):
        await answer({"a": "x", "b": "y"})


@pytest.mark.parametrize(("recording", "agent"), [("text", False), (OPENAI, True), (ANTHROPIC, True), (None, False)])
def test_a_conversation_asks_for_the_agent_port(recording: Any, agent: bool) -> None:
    assert SPEC.needs_agent is not None
    assert SPEC.needs_agent(model({"q1": recording}))(CallInfo("q1")) is agent


async def test_a_conversation_starts_with_the_assistants_first_message() -> None:
    reply = await RecordedAgent(model({"q1": OPENAI})).run([], AgentOptions(max_turns=1), info=CallInfo("q1"))
    said = (Message.assistant("I look."), Message.user("Well?"), Message.assistant("On 17q21."))
    assert reply == AgentReply(said, Usage(calls=0))
    assert await answer({"q1": OPENAI}) == "On 17q21."


async def test_text_is_a_conversation_of_one_message() -> None:
    reply = await RecordedAgent(model({"q1": "On 17q21."})).run([], AgentOptions(), info=CallInfo("q1"))
    assert reply.trace == (Message.assistant("On 17q21."),)


async def test_half_surrogate_pairs_in_recordings_are_replaced() -> None:
    use = {"type": "tool_use", "id": "c", "name": "lookup", "input": {"gene": "BCL2 \ud83d"}}
    said = {"type": "text", "text": "On 17q21 \ud83d"}
    messages = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": [said, use]}]

    assert await answer({"q1": "On 17q21 \ud83d"}) == "On 17q21 \ufffd"
    reply = await RecordedAgent(model({"q1": messages})).run([], AgentOptions(), info=CallInfo("q1"))
    assert reply.trace[0].tool_calls[0].arguments == {"gene": "BCL2 \ufffd"}
    assert reply.trace[0].content == "On 17q21 \ufffd"


async def test_a_conversation_without_an_answer_is_no_answer() -> None:
    with pytest.raises(PortError, match="'q1' is not an answer: the trace ends with the assistant calling lookup"):
        await answer({"q1": ANTHROPIC})
    with pytest.raises(PortError, match="no assistant message"):
        await RecordedAgent(model({"q1": OPENAI[:2]})).run([], AgentOptions(), info=CallInfo("q1"))


async def test_all_recorded_answers_of_a_real_set_are_found() -> None:
    file = DATA / "evouna.jsonl"
    if not file.exists():
        pytest.skip("needs data/evouna.jsonl of the shared folder beside the repository")
    assert SPEC.check is not None
    SPEC.check(model(file))
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [await answer(file, row["id"], row["question"]) for row in rows] == [row["response"] for row in rows]


async def test_real_conversations_are_found_whole() -> None:
    file = DATA / "traces_taubench_airline.jsonl"
    if not file.exists():
        pytest.skip("needs data/traces_taubench_airline.jsonl of the shared folder beside the repository")
    agent = RecordedAgent(model(file))
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    found = [len((await agent.run([], AgentOptions(), info=CallInfo(row["id"]))).trace) for row in rows]
    assert found == [len(row["messages"]) - 2 for row in rows]


def test_naming_the_adapter_imports_nothing_heavy() -> None:
    code = "import sys, karenina_manual; print([m for m in ('aiohttp', 'numpy', 'typer') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_it_has_no_parser_port() -> None:
    assert SPEC.ports == ("llm", "agent")
