"""Conversations of other programs are recordings, as a row's response or as the row itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import AgentOptions, CallInfo, Message, PortError
from karenina_manual import plugin
from karenina_manual.ports import RecordedAgent, RecordedLLM

pytestmark = pytest.mark.anyio
SPEC = plugin.karenina_adapters()[0]
INFO = CallInfo("q1", "What is the capital of Chile?")
ANSWER = "Santiago, as the atlas says."


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def model(folder: Path, *rows: object, **extra: Any) -> ModelConfig:
    file = folder / "answers.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return ModelConfig(id="m", interface="manual", model_name="recorded", manual_traces=file, extra=extra)


async def trace(recorded: ModelConfig) -> list[Message]:
    assert SPEC.check is not None
    SPEC.check(recorded)
    reply = await RecordedLLM(recorded).invoke([Message.user(INFO.question)], info=INFO)
    assert reply.text == ANSWER
    return list((await RecordedAgent(recorded).run([], AgentOptions(), info=INFO)).trace)


CALL = {"toolUse": {"toolUseId": "a", "name": "open_atlas", "input": {"page": 3}}}
FOUND = {"toolResult": {"toolUseId": "a", "content": [{"json": {"city": "Santiago"}}]}}
CONVERSATIONS: dict[str, Any] = {
    "Bedrock": [
        {"role": "user", "content": [{"text": INFO.question}]},
        {"role": "assistant", "content": [CALL]},
        {"role": "user", "content": [FOUND]},
        {"role": "assistant", "content": [{"text": ANSWER}]},
    ],
    "LangGraph": {
        "messages": [
            {"type": "human", "content": INFO.question},
            {"type": "ai", "content": "", "tool_calls": [{"name": "open_atlas", "args": {"page": 3}, "id": "a"}]},
            {"type": "tool", "content": '{"city": "Santiago"}', "tool_call_id": "a"},
            {"type": "ai", "content": ANSWER},
        ],
        "remaining_steps": 9,
    },
    "OpenTelemetry": [
        {"role": "user", "parts": [{"type": "text", "content": INFO.question}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "a", "name": "open_atlas", "arguments": {"page": 3}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "a", "response": {"city": "Santiago"}}]},
        {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}], "finish_reason": "stop"},
    ],
}


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("written", ["as JSON", "as text"])
async def test_a_conversation_of_another_program_is_replayed(name: str, written: str, tmp_path: Path) -> None:
    recording, as_text = CONVERSATIONS[name], json.dumps(CONVERSATIONS[name])
    row = {"id": "q1", "response": recording if written == "as JSON" else as_text}
    recorded = model(tmp_path, row, **({"delimited": True} if written == "as text" else {}))
    called, found, said = await trace(recorded)
    assert [(call.name, call.arguments) for call in called.tool_calls] == [("open_atlas", {"page": 3})]
    assert (found.tool_name, json.loads(found.content), found.is_error) == ("open_atlas", {"city": "Santiago"}, False)
    assert said.content == ANSWER


async def test_a_chat_completion_is_an_answer(tmp_path: Path) -> None:
    message = {"role": "assistant", "content": ANSWER, "reasoning_content": "Hmm."}
    completion = {"object": "chat.completion", "choices": [{"message": message, "finish_reason": "stop"}]}
    recorded = model(tmp_path, {"id": "q1", "response": completion})
    (found,) = await trace(recorded)
    assert found == Message.assistant(ANSWER, reasoning="Hmm.")
    assert SPEC.needs_agent is not None
    assert not SPEC.needs_agent(recorded)(INFO)
    reply = await RecordedLLM(recorded).invoke([], info=INFO)
    assert (reply.text, reply.reasoning) == (ANSWER, "Hmm.")
    (found,) = await trace(model(tmp_path, {"question_id": "q1", **completion}))
    assert found.content == ANSWER


async def test_what_stands_beside_the_messages_belongs_to_them(tmp_path: Path) -> None:
    name = "0123456789abcdef" * 2
    messages = [
        {"role": "user", "content": INFO.question, "source": "input"},
        {"role": "assistant", "content": f"attachment://{name}", "source": "generate"},
    ]
    row = {"id": "q1", "messages": messages, "attachments": {name: ANSWER}, "epoch": 1}
    (found,) = await trace(model(tmp_path, row))
    assert found.content == ANSWER
    del row["attachments"]
    with pytest.raises(AdapterConfigError, match=r"line 1: .*the attachment 0123456789abcdef0.* is missing"):
        await trace(model(tmp_path, row))


TRANSCRIPT = f"User: {INFO.question}\nAssistant: {ANSWER}"
DIALOGUE = json.dumps([{"role": "user", "content": INFO.question}, {"role": "assistant", "content": ANSWER}])


@pytest.mark.parametrize(
    ("text", "looks"),
    [(TRANSCRIPT, "begins with a role followed by an answer"), (DIALOGUE, "is a conversation in JSON")],
)
async def test_a_text_that_could_be_a_conversation_needs_a_word(text: str, looks: str, tmp_path: Path) -> None:
    row = {"id": "q1", "response": text}
    with pytest.raises(AdapterConfigError, match=rf"line 1: the text {looks}\. Set extra\.delimited = true"):
        await trace(model(tmp_path, row))
    (found,) = await trace(model(tmp_path, row, delimited=True))
    assert found.content == ANSWER
    reply = await RecordedLLM(model(tmp_path, row, delimited=False)).invoke([], info=INFO)
    assert reply.text == text
    with pytest.raises(AdapterConfigError, match=looks):
        await trace(model(tmp_path, {"id": "q1", "replicates": ["Lima", text]}))


@pytest.mark.parametrize("column", ["messages", "trace", "trace_messages"])
async def test_the_name_of_a_column_says_that_json_is_a_conversation(column: str, tmp_path: Path) -> None:
    (found,) = await trace(model(tmp_path, {"id": "q1", column: DIALOGUE}))
    assert found.content == ANSWER


@pytest.mark.parametrize("text", [DIALOGUE, f"User: {INFO.question}\nAssistant: {ANSWER}"])
async def test_a_text_that_a_program_gives_is_a_text(text: str) -> None:
    recorded = ModelConfig(id="m", interface="manual", model_name="recorded", manual_traces={"q1": text})
    assert (await RecordedLLM(recorded).invoke([], info=INFO)).text == text


@pytest.mark.parametrize(
    "answer",
    [
        '{"city": "Santiago"}',
        '{"role": "admin", "content": "all rights"}',
        '[{"role": "CEO", "content": "Ann"}, {"role": "CTO", "content": "Bob"}]',
        '{"output": [{"city": "Santiago"}]}',
        '{"choices": ["Santiago", "Lima"]}',
        '{"type": "phone_call", "name": "Ann"}',
        '{"type": "result", "result": "42"}',
        '[{"type": "login", "session_id": "3"}, {"type": "logout", "session_id": "3"}]',
        'I would send `[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]`.',
        "Note: Santiago.",
        "User: the person who asks.",
    ],
)
async def test_an_answer_with_words_of_conversations_stays_a_text(answer: str, tmp_path: Path) -> None:
    recorded = model(tmp_path, {"id": "q1", "response": answer})
    assert (await RecordedLLM(recorded).invoke([], info=INFO)).text == answer


HALF: dict[str, Any] = {"role": "assistant", "content": "Santi"}


@pytest.mark.parametrize(
    ("row", "end"),
    [
        ({"response": {"choices": [{"message": HALF, "finish_reason": "length"}]}}, "length"),
        ({"response": {"choices": [{"message": HALF, "finish_reason": "stop"}]}}, "stop"),
        ({"response": {"choices": [{"message": {**HALF, "content": ""}, "finish_reason": "length"}]}}, "length"),
        (
            {"response": {"choices": [{"message": {**HALF, "content": None}, "finish_reason": "content_filter"}]}},
            "content_filter",
        ),
        ({"response": {"candidates": [{"finishReason": "SAFETY"}]}}, "content_filter"),
        ({"response": "Santi", "finish_reason": "length"}, "length"),
        ({"response": [HALF], "stop_reason": "max_tokens"}, "length"),
    ],
)
async def test_a_recorded_reply_ends_as_it_did(row: dict[str, Any], end: str, tmp_path: Path) -> None:
    recorded = model(tmp_path, {"id": "q1", **row})
    assert SPEC.check is not None
    assert SPEC.mismatches is not None
    SPEC.check(recorded)
    assert list(SPEC.mismatches(recorded, [INFO], [])) == []
    assert (await RecordedLLM(recorded).invoke([], info=INFO)).finish_reason == end


@pytest.mark.parametrize(
    ("ended", "end"),
    [
        ({"output": {"choices": [{"stop_reason": "max_tokens"}]}}, "length"),
        ({"output": {"choices": [{"stop_reason": "stop"}]}, "limit": {"type": "message", "limit": 2}}, "length"),
        ({"output": {"message": "Santiago"}, "limit": 5, "error": None}, "stop"),
    ],
)
async def test_a_row_that_is_an_inspect_sample_ends_as_it_did(ended: dict[str, Any], end: str, tmp_path: Path) -> None:
    recorded = model(tmp_path, {"id": "q1", "messages": [{"role": "user", "content": "?"}, HALF], **ended})
    assert (await RecordedAgent(recorded).run([], AgentOptions(), info=INFO)).finish_reason == end


async def test_a_recorded_agent_ends_as_it_did(tmp_path: Path) -> None:
    messages = [*CONVERSATIONS["Bedrock"][:-1], {**CONVERSATIONS["Bedrock"][-1], "stopReason": "max_tokens"}]
    reply = await RecordedAgent(model(tmp_path, {"id": "q1", "response": messages})).run([], AgentOptions(), info=INFO)
    assert reply.finish_reason == "length"


async def test_a_recorded_reply_that_broke_off_is_no_answer(tmp_path: Path) -> None:
    row = {"id": "q1", "response": {"choices": [{"message": HALF, "finish_reason": "error"}]}}
    with pytest.raises(PortError, match=r"the reply broke off \(finish reason 'error'\)"):
        await RecordedLLM(model(tmp_path, row)).invoke([], info=INFO)


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        ({"city": "Santiago"}, "an object without any of the keys 'messages'.*known formats are OpenAI chat messages"),
        ({"choices": [{}, {}]}, "the response has 2 choices"),
        ({"messages": [], "choices": []}, "both 'messages' and 'choices'"),
        ([{"type": "ai", "tool_calls": [{}], "content": ""}], "entry 1: a tool call has no name"),
    ],
)
async def test_an_unknown_shape_is_named_with_its_line(response: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(AdapterConfigError, match=f"line 1: .*{problem}"):
        await trace(model(tmp_path, {"id": "q1", "response": response}))
