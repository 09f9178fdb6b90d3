"""Replies of the Messages API: as JSON, as streams of events, and what they mean."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from claude_cli_wire import Claude
from hypothesis import given
from hypothesis import strategies as st

from karenina_claude_agent_sdk.conversion import results_in, turn_of
from karenina_claude_agent_sdk.event_stream import PING, ServerReportedError, events_of, read_reply
from karenina_claude_agent_sdk.messages_client import MessagesClient
from karenina_core.models.ports import NO_USAGE, ErrorCategory, FinishReason, Message, PortError, ToolCall, Turn, Usage
from karenina_testing.server import Reply, ScriptedServer
from karenina_toolkit.http.reply_body import IncompleteStream

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.builds(
        lambda call, given: {"type": "tool_use", "id": call, "name": "Read", "input": given},
        TEXTS,
        st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.none(), st.lists(TEXTS))),
    ),
    st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": text[::-1]}, TEXTS),
    st.builds(lambda data: {"type": "redacted_thinking", "data": data}, TEXTS),
)
SAID = {"type": "text", "text": "17q21"}
PAID = Usage(11, 7, calls=1)
OVERLOADED = '{"type": "overloaded_error", "message": "later"}'


def message(*blocks: dict[str, Any], stop_reason: str = "end_turn", **fields: Any) -> dict[str, Any]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "served"}
    usage = {"input_tokens": 11, "output_tokens": 7}
    ending = {"stop_reason": stop_reason, "stop_sequence": None, "usage": usage}
    return {**head, "content": list(blocks), **ending, **fields}


@given(st.lists(BLOCKS), st.sampled_from(["end_turn", "tool_use", "max_tokens"]))
def test_a_reply_survives_its_stream(blocks: list[dict[str, Any]], stop_reason: str) -> None:
    reply = message(*blocks, stop_reason=stop_reason)

    assert read_reply(b"".join(events_of(reply))) == reply


@given(st.lists(BLOCKS, min_size=1), st.data())
def test_a_stream_that_is_cut_is_no_reply(blocks: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = b"".join(events_of(message(*blocks))).rstrip()
    cut = whole[: data.draw(st.integers(min_value=len(b"event:"), max_value=len(whole) - 1))]

    with pytest.raises(IncompleteStream, match="ended before the reply was complete"):
        read_reply(cut)


def test_a_stream_may_be_late_and_come_in_parts() -> None:
    """Events as the real API writes them: the count of tokens is told last, and a text comes in many pieces."""
    events = [
        {"type": "message_start", "message": message(stop_reason=None, usage={"input_tokens": 11, "output_tokens": 1})},  # type: ignore[arg-type]  # none yet
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "17"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "q21"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
    raw = PING.decode() + "".join(f"event: {one['type']}\r\ndata: {json.dumps(one)}\r\n\r\n" for one in events)

    turn = turn_of(read_reply(raw.encode()))

    assert turn.message == Message.assistant("17q21")
    assert (turn.usage, turn.finish_reason) == (Usage(11, 7, calls=1), "stop")


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "later"}}),
        'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}\n\n',
    ],
)
def test_an_error_inside_a_reply_is_classified_by_kind(raw: str) -> None:
    with pytest.raises(ServerReportedError, match="later") as caught:
        read_reply(raw.encode())
    assert caught.value.kind == "overloaded_error"


BEGUN = b"".join(events_of(message(SAID))).partition(b"event: message_delta")[0].decode()


@pytest.mark.parametrize(
    ("body", "category", "usage", "says"),
    [
        pytest.param(BEGUN, ErrorCategory.CONNECTION, PAID, "ended before the reply was complete", id="cut off"),
        pytest.param(
            f'{BEGUN}event: error\ndata: {{"type": "error", "error": {OVERLOADED}}}\n\n',
            ErrorCategory.SERVER,
            PAID,
            "overloaded_error: later",
            id="an error in the middle",
        ),
        pytest.param(
            f'{BEGUN}event: error\ndata: {{"error": {OVERLOADED}}}\n\n',
            ErrorCategory.SERVER,
            PAID,
            "overloaded_error: later",
            id="an error of a gateway in the middle",
        ),
        pytest.param(
            {**message(SAID), "error": json.loads(OVERLOADED)},
            ErrorCategory.SERVER,
            PAID,
            "overloaded_error: later",
            id="text beside an error",
        ),
        pytest.param(
            {"error": {"code": 429, "message": "Quota exceeded"}},
            ErrorCategory.RATE_LIMIT,
            NO_USAGE,
            "429: Quota exceeded",
            id="a status",
        ),
        pytest.param({"error": "no GPU"}, ErrorCategory.SERVER, NO_USAGE, "no GPU", id="an error that is a text"),
        pytest.param(
            {"status": "busy"}, ErrorCategory.SERVER, NO_USAGE, 'no content: {"status": "busy"}', id="no content"
        ),
        pytest.param(
            "upstream lost", ErrorCategory.SERVER, NO_USAGE, "the body is not JSON: upstream lost", id="a text"
        ),
        pytest.param("", ErrorCategory.SERVER, NO_USAGE, "the body is empty", id="nothing"),
        pytest.param("<!DOCTYPE html><p>Hi", ErrorCategory.PERMANENT, NO_USAGE, "a web page", id="a page"),
    ],
)
def test_a_reply_that_is_none_says_why(body: Any, category: ErrorCategory, usage: Usage, says: str) -> None:
    async def ask(server: ScriptedServer) -> PortError:
        client = MessagesClient(Claude().model(server.url))
        try:
            with pytest.raises(PortError) as caught:
                await client.post({"messages": []}, {}, ())
        finally:
            await client.aclose()
        return caught.value

    with Claude().server(Reply(body)) as server:
        error = asyncio.run(ask(server))
    assert (error.category, error.usage) == (category, usage)
    assert says in str(error)


def test_a_turn_has_one_message_and_plain_tool_names() -> None:
    turn = turn_of(
        message(
            {"type": "thinking", "thinking": "Hm.", "signature": "x"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "note.txt"}},
            {"type": "tool_use", "id": "2", "name": "mcp__karenina__find_gene", "input": {}},
            stop_reason="tool_use",
            usage={
                "input_tokens": 5,
                "cache_creation_input_tokens": 3,
                "cache_read_input_tokens": 2,
                "output_tokens": 7,
                "output_tokens_details": {"thinking_tokens": 4},
            },
        )
    )

    calls = ToolCall("1", "Read", {"file_path": "note.txt"}), ToolCall("2", "find_gene", {})
    assert turn.message == Message.assistant("I look.", calls, "Hm.")
    assert turn.usage == Usage(10, 7, cached_tokens=2, reasoning_tokens=4, calls=1, cache_write_tokens=3)
    assert turn.finish_reason == "tool_calls"


def test_what_tools_said_is_found_in_a_request() -> None:
    said = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    results = [
        {"type": "tool_result", "tool_use_id": "1", "content": "plain"},
        {"type": "tool_result", "tool_use_id": "2", "content": said, "is_error": True},
        {"type": "text", "text": "and a word of the CLI"},
    ]

    earlier = [{"type": "tool_result", "tool_use_id": "1", "content": "of an earlier turn that used the id, too"}]
    called = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "Read", "input": {}}]}
    asked = [{"role": "user", "content": "ask"}, called, {"role": "user", "content": earlier}, called]

    found = results_in({"messages": [*asked, {"role": "user", "content": results}]})

    assert found == {"1": ("plain", False), "2": ("a\nb", True)}


def test_a_stream_without_a_reason_is_broken_off_if_others_have_one() -> None:
    ended, unended = (b"".join(events_of(message(SAID, stop_reason=reason))) for reason in ("end_turn", None))  # type: ignore[arg-type]  # none

    async def ask(server: ScriptedServer) -> tuple[FinishReason, PortError]:
        client = MessagesClient(Claude().model(server.url))
        try:
            first = await client.post({"messages": []}, {}, ())
            with pytest.raises(PortError) as caught:
                await client.post({"messages": []}, {}, ())
        finally:
            await client.aclose()
        return first.finish_reason, caught.value

    with Claude().server(*(Reply(chunks=[raw]) for raw in (ended, unended))) as server:
        reason, error = asyncio.run(ask(server))
    assert (reason, error.category, error.usage) == ("stop", ErrorCategory.CONNECTION, Usage(11, 7, calls=1))


def test_a_normal_end_of_a_stream_does_not_hide_an_earlier_one() -> None:
    refused = {"type": "message_delta", "delta": {"stop_reason": "refusal"}}
    stream = b"".join(events_of(message(SAID)))
    at = stream.index(b"event: message_delta")
    raw = stream[:at] + f"event: message_delta\ndata: {json.dumps(refused)}\n\n".encode() + stream[at:]
    assert turn_of(read_reply(raw)).finish_reason == "content_filter"


def test_a_paused_reply_goes_on_for_a_few_requests() -> None:
    async def ask(server: ScriptedServer) -> Turn:
        client = MessagesClient(Claude().model(server.url))
        try:
            return await client.post({"messages": []}, {}, ())
        finally:
            await client.aclose()

    paused = [message({"type": "text", "text": f"{number} "}, stop_reason="pause_turn") for number in range(9)]
    with Claude().server(*map(Reply, paused[:2]), Reply(message(SAID))) as server:
        turn = asyncio.run(ask(server))
    assert (turn.message.content, turn.finish_reason) == ("0 1 17q21", "stop")
    assert turn.usage == Usage(33, 21, calls=3)
    with Claude().server(*map(Reply, paused)) as server:
        turn = asyncio.run(ask(server))
    assert (turn.message.content, turn.finish_reason, turn.usage.calls) == ("0 1 2 3 4 ", "length", 5)
