"""Message histories of Pydantic AI."""

from __future__ import annotations

from typing import Any

import pytest

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import TraceFormatError, convert_recording, find_end

JSON = dict[str, Any]
TIME = "2026-01-05T10:00:00Z"
LOOK = ToolCall("c1", "look_up", {"gene": "BRCA1"})


def request(*parts: JSON, **more: Any) -> JSON:
    return {"parts": [*parts], "kind": "request", "instructions": None, **more}


def response(*parts: JSON, **more: Any) -> JSON:
    usage = {"input_tokens": 51, "output_tokens": 7, "details": {}}
    return {"parts": [*parts], "kind": "response", "usage": usage, "model_name": "m", "timestamp": TIME, **more}


def part(kind: str, content: Any = None, **more: Any) -> JSON:
    return {"part_kind": kind, "content": content, "timestamp": TIME, **more}


def call(name: str, args: Any, call_id: str, kind: str = "tool-call") -> JSON:
    return {"part_kind": kind, "tool_name": name, "args": args, "tool_call_id": call_id}


def returned(content: Any, name: str, call_id: str, **more: Any) -> JSON:
    return part("tool-return", content, tool_name=name, tool_call_id=call_id, **more)


ASKED = request(part("user-prompt", "Where is BRCA1?"), instructions="Be brief.")
CALLED = response(call("look_up", '{"gene": "BRCA1"}', "c1"), finish_reason="tool_call")
FOUND = request(returned({"locus": "17q21"}, "look_up", "c1", outcome="success"), instructions="Be brief.")
READ = [
    Message.system("Be brief."),
    Message.user("Where is BRCA1?"),
    Message.assistant("", [LOOK]),
    Message.tool('{"locus": "17q21"}', LOOK),
]


def test_instructions_are_read_once_and_results_as_json() -> None:
    history = [ASKED, CALLED, FOUND, response(part("text", "On 17q21."), finish_reason="stop")]
    assert convert_recording(history) == [*READ, Message.assistant("On 17q21.")]
    assert convert_recording({"messages": history}) == convert_recording(history)
    assert find_end(history) == ("stop", None)
    other = request(part("user-prompt", "And?"), instructions="Be verbose.")
    assert [message.content for message in convert_recording([ASKED, other])] == [
        *("Be brief.", "Where is BRCA1?"),
        *("Be verbose.", "And?"),
    ]


@pytest.mark.parametrize("args", ['{"locus": "17q21"}', {"locus": "17q21"}])
def test_a_typed_output_is_the_answer(args: Any) -> None:
    output = call("final_result", args, "f")
    processed = returned("Final result processed.", "final_result", "f")
    skipped = returned("Tool not executed - a final result was already processed.", "look_up", "c2")
    answer = Message.assistant('{"locus": "17q21"}', (), "Easy.")
    history = [ASKED, CALLED, FOUND, response(part("thinking", "Easy."), output), request(processed)]
    assert convert_recording(history) == [*READ, answer]
    again = ToolCall("c2", "look_up", {})
    both = response(part("text", "Done."), output, call("look_up", None, "c2"))
    assert convert_recording([ASKED, both, request(processed, skipped)])[2:] == [
        Message.assistant("Done.", [again]),
        Message.tool("Tool not executed - a final result was already processed.", again),
        Message.assistant('{"locus": "17q21"}'),
    ]
    assert convert_recording([ASKED, response(output)])[-1].tool_calls[0].name == "final_result"


def test_a_request_to_try_again_is_an_error_or_a_message_of_the_user() -> None:
    problems = [{"type": "missing", "loc": ["gene"], "msg": "Field required"}]
    retry = part("retry-prompt", problems, tool_name="look_up", tool_call_id="c1")
    plain = part("retry-prompt", "Please return text.", tool_name=None)
    assert convert_recording([CALLED, request(retry, plain)])[1:] == [
        Message.tool('[{"type": "missing", "loc": ["gene"], "msg": "Field required"}]', LOOK, is_error=True),
        Message.user("Please return text."),
    ]
    denied = returned("The tool call was denied.", "look_up", "c1", outcome="denied")
    assert convert_recording([CALLED, request(denied)])[-1].is_error


def test_a_tool_of_the_server_divides_a_response() -> None:
    search = ToolCall("s", "web_search", {"query": "BRCA1"})
    found = part("builtin-tool-return", "17q21", tool_name="web_search", tool_call_id="s")
    assert convert_recording(
        [
            ASKED,
            response(call("web_search", {"query": "BRCA1"}, "s", "builtin-tool-call"), found, part("text", "17q21.")),
        ]
    )[2:] == [Message.assistant("", [search]), Message.tool("17q21", search), Message.assistant("17q21.")]


def test_other_parts_are_described() -> None:
    url = {"kind": "image-url", "url": "https://example.org/a.png"}
    asked = part(
        "user-prompt", ["Look.", url, {"kind": "cache-point", "ttl": "5m"}, {"kind": "text-content", "content": "Go."}]
    )
    file = part("file", {"kind": "binary", "data": "iVBORw0K" * 40, "media_type": "image/png"})
    user, summary, said = convert_recording(
        [request(asked), response(part("compaction", "They looked."), part("text", "Yes."), file, part("dream", "x"))]
    )
    assert user.content == 'Look.\n[image-url] {"url": "https://example.org/a.png"}\nGo.'
    assert summary == Message.system('[compaction] {"content": "They looked."}')
    assert said.content == 'Yes.\n[binary] {"data": "(320 encoded characters)", "media_type": "image/png"}'
    assert "a part of the unknown type 'dream'" in said.notes[0]


@pytest.mark.parametrize(
    ("about", "end"),
    [
        ({"finish_reason": "length"}, ("length", None)),
        ({"finish_reason": "content_filter"}, ("content_filter", None)),
        ({"finish_reason": "error"}, ("failed", "error")),
        ({"finish_reason": None, "state": "interrupted"}, ("failed", "error: the response is interrupted")),
        ({"finish_reason": "stop", "state": "complete"}, ("stop", None)),
    ],
)
def test_the_last_response_states_its_end(about: JSON, end: tuple[str, str | None]) -> None:
    assert find_end([ASKED, response(part("text", "On 17"), **about)]) == end


def test_a_run_that_was_stopped_while_tools_were_called_is_an_error() -> None:
    stopped = {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_name": "look_up", "tool_call_id": "c"}]}
    assert find_end([ASKED, {**stopped, "state": "interrupted"}]) == ("failed", "error: the request is interrupted")
    assert find_end([ASKED, {**stopped, "state": "complete"}]) == ("stop", None)


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        ([ASKED, response({"part_kind": 5})], "entry 2: a part has no part_kind"),
        ([ASKED, response(call("", {}, "c"))], "entry 2: a tool-call has no tool_name"),
        ([ASKED, {"kind": "dream", "parts": []}], "entry 2: this is neither a request nor a response"),
    ],
)
def test_what_cannot_be_read_is_an_error(history: list[JSON], problem: str) -> None:
    with pytest.raises(TraceFormatError, match=problem):
        convert_recording(history)
