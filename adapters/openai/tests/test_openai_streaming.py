"""Streamed replies: put together whole, never short, and bounded by silence instead of length."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from pathlib import Path
from typing import Any, cast

import pytest
from openai_servers import SILENCE, Scripted, chunk, completion, event, in_pieces, model, streamed

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import AgentOptions, ErrorCategory, LLMReply, Message, PortError, ToolCall, Usage
from karenina_openai import plugin
from karenina_openai.agent import OpenAIAgent
from karenina_openai.parser import OpenAILLM, OpenAIParser
from karenina_testing.server import Reply

pytestmark = pytest.mark.anyio
ASK = [Message.user("What is the capital of France?")]
PARIS = LLMReply("Paris.", Usage(7, 3, calls=1), "stop", "served-model")
USAGE = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
Keep = Callable[[Any], Any]


def streaming(server: Scripted, request_timeout: float = 60, **extra: Any) -> Any:
    return model(server.url, request_timeout=request_timeout, extra={"stream": True, **extra})


async def fails(port: Any) -> PortError:
    with pytest.raises(PortError) as caught:
        await port.invoke(ASK)
    return caught.value


async def test_a_stream_is_put_together(server: Scripted, open_port: Keep) -> None:
    server.answer = lambda _: in_pieces([(0, streamed(completion()))])
    port = open_port(OpenAILLM(streaming(server)))
    for _ in range(20):  # a thread of the client takes the connection back shortly after the reply
        assert await port.invoke(ASK) == PARIS
        connections = [request.connection for request in server.requests]
        if len(set(connections)) < len(connections):
            break
        await asyncio.sleep(0.02)
    assert len(set(connections)) < len(connections), "no connection is used again"
    assert (server.bodies[0]["stream"], server.bodies[0]["stream_options"]) == (True, {"include_usage": True})


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
async def test_it_does_not_matter_where_the_pieces_are_cut(
    size: int, newline: str, server: Scripted, open_port: Keep
) -> None:
    text = streamed(completion("Zürich 🧬\n“x”")).replace("\n", newline)
    raw = f": a comment{newline}event: message{newline}{text}"
    server.answer = lambda _: in_pieces([(0, raw[start : start + size]) for start in range(0, len(raw), size)])
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).text == "Zürich 🧬\n“x”"


async def test_a_reply_may_take_longer_than_any_silence(server: Scripted, open_port: Keep) -> None:
    pieces = [(0.4, chunk(content=word)) for word in ("It ", "is ", "in ", "Paris", ", ", "in ", "France", ".")]
    server.answer = lambda _: in_pieces([*pieces, (0, chunk("stop")), (0, USAGE + event("[DONE]"))])
    assert (await open_port(OpenAILLM(streaming(server, 3))).invoke(ASK)).text == "It is in Paris, in France."


async def test_a_server_that_always_streams_is_told_apart(server: Scripted, open_port: Keep) -> None:
    piece = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Paris."}}]}
    server.answer = lambda _: in_pieces([(0, ": ping\n\n" + event(piece) + event("[DONE]"))])
    error = await fails(open_port(OpenAILLM(model(server.url))))
    assert (error.category, "set extra.stream to true" in str(error)) == (ErrorCategory.PERMANENT, True)


@pytest.mark.parametrize("index", [None, 1])
async def test_the_number_of_the_only_choice_does_not_matter(
    index: int | None, server: Scripted, open_port: Keep
) -> None:
    pieces = [
        event({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]})
        for text, finish in (("Par", None), ("is.", "stop"))
    ]
    server.answer = lambda _: in_pieces([(0, "".join(pieces) + event("[DONE]"))])
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).text == "Paris."


async def test_without_streaming_the_time_is_for_the_whole_reply(server: Scripted, open_port: Keep) -> None:
    server.answer = lambda _: in_pieces(repeat((0.12, "{")))
    error = await fails(open_port(OpenAILLM(model(server.url, request_timeout=0.4))))
    assert "did not answer within 0.4 s" in str(error)


STILL_HERE = (0.1, ": still here\n\n")
BEGINS_LATE = {"first_token_timeout": 60}


@pytest.mark.parametrize(
    ("extra", "pieces", "told"),
    [
        ({}, [SILENCE], "did not start its reply within 0.3 s; raise request_timeout"),
        ({}, [(0, chunk(role="assistant", content="")), SILENCE], "did not start its reply within 0.3 s"),
        ({}, repeat(STILL_HERE), "did not start its reply within 0.3 s"),
        (BEGINS_LATE, [(0, chunk(content="It ")), SILENCE], "sent no data for 0.3 s; raise request_timeout"),
        (BEGINS_LATE, chain([(0, chunk(content="It "))], repeat(STILL_HERE)), "sent no data for 0.3 s"),
        (
            {"first_token_timeout": 0.1},
            [SILENCE],
            "did not start its reply within 0.1 s; raise extra.first_token_timeout",
        ),
    ],
)
async def test_silence_is_a_time_out(
    extra: dict[str, Any], pieces: Iterable[tuple[float, str]], told: str, server: Scripted, open_port: Keep
) -> None:
    server.answer = lambda _: in_pieces(pieces)
    error = await fails(open_port(OpenAILLM(streaming(server, 0.3, **extra))))
    assert error.category is ErrorCategory.TIMEOUT
    assert told in str(error)


async def test_a_time_out_is_not_lost_if_data_arrives_then(server: Scripted, open_port: Keep) -> None:
    server.answer = lambda _: in_pieces(repeat((0.002, ": still here\n\n")))

    def opened(seconds: float) -> OpenAILLM:
        """Return a port that waits for so many seconds, and at most for three."""
        settings = model(server.url, request_timeout=seconds, stream_timeout=3, extra={"stream": True})
        return cast("OpenAILLM", open_port(OpenAILLM(settings)))

    ports = [opened(0.1 + number / 100) for number in range(16)]
    errors = await asyncio.gather(*(fails(port) for port in ports))
    assert [str(error) for error in errors if "did not start its reply within" not in str(error)] == []


async def test_a_cancelled_call_ends_if_data_arrives_then(server: Scripted, open_port: Keep) -> None:
    server.answer = lambda _: in_pieces(repeat((0.002, "{ ")))
    port = open_port(OpenAILLM(model(server.url, request_timeout=30)))
    calls = [asyncio.ensure_future(port.invoke(ASK)) for _ in range(30)]
    for call in calls:
        await asyncio.sleep(0.01)
        call.cancel()
    assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*calls, return_exceptions=True))


async def test_the_first_token_may_be_given_more_time(server: Scripted, open_port: Keep) -> None:
    server.answer = lambda _: in_pieces([(1.2, streamed(completion()))])
    assert await open_port(OpenAILLM(streaming(server, 1, first_token_timeout=60))).invoke(ASK) == PARIS


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize(
    "begun",
    [
        "",
        chunk(content="Par"),
        chunk(content="Paris."),
        chunk(content="Paris.") + chunk("stop").rstrip(),
        chunk(content="Paris.") + USAGE,
        streamed(completion())[:-200],
    ],
)
async def test_an_incomplete_stream_is_an_error_of_the_connection(
    begun: str, cut: bool, server: Scripted, open_port: Keep
) -> None:
    server.answer = lambda _: in_pieces([(0, begun)], cut=cut)
    error = await fails(open_port(OpenAILLM(streaming(server))))
    assert (error.category, error.retriable) == (ErrorCategory.CONNECTION, True)


@pytest.mark.parametrize(
    ("last", "usage"), [(USAGE, Usage(7, 3, calls=1)), (event("[DONE]"), Usage(calls=1)), ("", Usage(calls=1))]
)
async def test_data_after_a_complete_reply_is_ignored(
    last: str, usage: Usage, server: Scripted, open_port: Keep
) -> None:
    server.answer = lambda _: in_pieces([(0, chunk(content="Paris.") + chunk("stop") + last)])
    reply = await open_port(OpenAILLM(streaming(server))).invoke(ASK)
    assert (reply.text, reply.finish_reason, reply.usage) == ("Paris.", "stop", usage)


LLAMA_CPP_ERROR = 'error: {"code":400,"message":"too long","type":"invalid_request_error"}\n\n'
"""An error of llama.cpp before September 2025."""
NAMED = "event: error\n"
ENDED = chunk("stop") + event("[DONE]")
FASTCHAT_ERROR = event({"text": "NETWORK ERROR DUE TO HIGH TRAFFIC", "error_code": 50001})


@pytest.mark.parametrize(
    ("said", "category", "told"),
    [
        (event({"error": {"message": "slow down", "code": 429}}), ErrorCategory.RATE_LIMIT, "HTTP 429: slow down"),
        (event({"error": {"message": "boom"}}), ErrorCategory.SERVER, "boom"),
        (event("{not json"), ErrorCategory.SERVER, "not a JSON object"),
        (event("[1]"), ErrorCategory.SERVER, "not a JSON object"),
        (chunk(content="Par") + event({"error": {"message": "boom"}}), ErrorCategory.SERVER, "boom"),
        (chunk(content="Par") + LLAMA_CPP_ERROR + event("[DONE]"), ErrorCategory.PERMANENT, "HTTP 400: too long"),
        (LLAMA_CPP_ERROR, ErrorCategory.PERMANENT, "HTTP 400: too long"),
        (chunk(content="Par") + FASTCHAT_ERROR + event("[DONE]"), ErrorCategory.SERVER, "HIGH TRAFFIC"),
        (chunk(content="Par") + event("{not json"), ErrorCategory.SERVER, "not a JSON object"),
        (event("[DONE]"), ErrorCategory.SERVER, "no choices"),
        (chunk(content="Par") + NAMED + event({"message": "boom"}) + ENDED, ErrorCategory.SERVER, "boom"),
        (
            chunk(content="Par") + NAMED + event({"code": 503, "msg": "x"}),
            ErrorCategory.SERVER,
            "HTTP 503: x",
        ),
        (chunk(content="Par") + "event: error\ndata: boom\n\n" + ENDED, ErrorCategory.SERVER, "boom"),
        (
            NAMED.replace(" ", "") + event({"error": {"code": 429}}),
            ErrorCategory.RATE_LIMIT,
            "HTTP 429",
        ),
        (chunk(content="Par") + event({"object": "error", "code": 400}) + ENDED, ErrorCategory.PERMANENT, "HTTP 400"),
        (chunk(content="Par") + event({"detail": "boom"}) + ENDED, ErrorCategory.SERVER, "boom"),
        (json.dumps({"error": {"message": "slow down", "code": 429}}), ErrorCategory.RATE_LIMIT, "slow down"),
        ("<html><title>Log in</title></html>", ErrorCategory.PERMANENT, "a web page"),
    ],
)
async def test_errors_in_a_stream_are_reported(
    said: str, category: ErrorCategory, told: str, server: Scripted, open_port: Keep
) -> None:
    server.answer = lambda _: in_pieces([(0, said)])
    error = await fails(open_port(OpenAILLM(streaming(server))))
    assert error.category is category
    assert told in str(error)


async def test_a_server_that_does_not_stream_is_understood(server: Scripted, open_port: Keep) -> None:
    server.says(body=completion())
    assert await open_port(OpenAILLM(streaming(server))).invoke(ASK) == PARIS


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("indent", [None, 1])
async def test_a_plain_reply_may_have_the_type_of_a_stream(
    indent: int | None, size: int, server: Scripted, open_port: Keep
) -> None:
    body = json.dumps(completion(), indent=indent)
    server.answer = lambda _: in_pieces([(0, body[start : start + size]) for start in range(0, len(body), size)])
    assert await open_port(OpenAILLM(streaming(server))).invoke(ASK) == PARIS


@pytest.mark.parametrize("kind", ["application/json", "text/plain; charset=utf-8", "application/octet-stream"])
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("begun", ["", "\n", "\ufeff", ": ping\n\n", "event: message\n", "data: \n\n"])
async def test_a_stream_may_have_another_type(
    begun: str, size: int, kind: str, server: Scripted, open_port: Keep
) -> None:
    raw = (begun + streamed(completion())).encode()
    pieces = [raw[start : start + size] for start in range(0, len(raw), size)]
    server.answer = lambda _: Reply(chunks=pieces, headers={"Content-Type": kind})
    assert await open_port(OpenAILLM(streaming(server))).invoke(ASK) == PARIS


@pytest.mark.parametrize(
    ("body", "why"),
    [("Hello!", "not JSON: Hello!"), ("Hi", "not JSON: Hi"), ("", "the body is empty"), ("{}", "no choices")],
)
@pytest.mark.parametrize("size", [1, 1000])
async def test_a_text_of_another_type_is_no_stream(
    size: int, body: str, why: str, server: Scripted, open_port: Keep
) -> None:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    server.answer = lambda _: Reply(chunks=pieces, headers={"Content-Type": "text/plain"})
    assert why in str(await fails(open_port(OpenAILLM(streaming(server)))))


@pytest.mark.parametrize("stream", [True, False])
async def test_a_packed_reply_without_its_header_says_so(stream: bool, server: Scripted, open_port: Keep) -> None:
    headers = {"Content-Type": "text/event-stream"} if stream else {}
    server.answer = lambda _: Reply(gzip.compress(json.dumps(completion()).encode()), headers=headers)
    error = await fails(open_port(OpenAILLM(model(server.url, extra={"stream": stream}))))
    assert "compressed with gzip, but has no header Content-Encoding" in str(error)


async def test_an_error_in_a_stream_is_paid_for_if_its_tokens_were_counted(server: Scripted, open_port: Keep) -> None:
    counted = event({"choices": [{"delta": {"content": "Par"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
    server.answer = lambda _: in_pieces([(0, counted + event({"error": {"message": "boom"}}))])
    assert (await fails(open_port(OpenAILLM(streaming(server))))).usage == Usage(7, 3, calls=1)


async def test_a_message_of_success_is_no_error(server: Scripted, open_port: Keep) -> None:
    success = {"code": 0, "message": "Success"}
    pieces = [success, {**success, "choices": [{"delta": {"content": "Paris."}}]}]
    server.answer = lambda _: in_pieces([(0, "".join(map(event, pieces)) + ENDED)])
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).text == "Paris."


@pytest.mark.parametrize(
    "said",
    [
        event({"object": "chat.completion.queue", "message": "position 3"}) + chunk(content="Paris.") + chunk("stop"),
        chunk(content="Paris.") + chunk("stop") + event({"status": "success", "message": "closed"}),
        chunk(content="Paris.") + event({"choices": [], "code": "", "message": ""}) + chunk("stop"),
        chunk(content="Paris.") + event({"code": 200, "msg": "success"}) + chunk("stop"),
    ],
)
async def test_a_message_beside_a_reply_is_no_error(said: str, server: Scripted, open_port: Keep) -> None:
    server.answer = lambda _: in_pieces([(0, said + event("[DONE]"))])
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).text == "Paris."


@pytest.mark.parametrize("stream", [True, False])
async def test_an_empty_call_beside_a_text_is_no_error(stream: bool, server: Scripted, open_port: Keep) -> None:
    empty = {"index": 0, "id": "", "type": "function", "function": {"name": "", "arguments": ""}}
    pieces = chunk(content="Paris.") + chunk(tool_calls=[empty]) + chunk("stop") + USAGE + event("[DONE]")
    server.answer = lambda _: in_pieces([(0, pieces)]) if stream else completion(tool_calls=[empty])
    found = await open_port(OpenAILLM(model(server.url, extra={"stream": stream}))).invoke(ASK)
    assert (found.text, found.finish_reason) == ("Paris.", "stop")


async def test_an_event_without_data_is_no_error(server: Scripted, open_port: Keep) -> None:
    server.answer = lambda _: in_pieces([(0, NAMED + "\ndata:\n\n" + chunk(content="Paris.") + "data: \n\n" + ENDED)])
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).text == "Paris."


async def test_an_error_without_values_in_every_chunk_is_none(server: Scripted, open_port: Keep) -> None:
    nothing = {"error": {"message": "", "type": "", "code": None}}
    chunks = [{"choices": [{"index": 0, "delta": {"content": "Paris."}, "finish_reason": "stop"}], **nothing}]
    server.answer = lambda _: in_pieces([(0, "".join(map(event, chunks)) + event("[DONE]"))])
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).text == "Paris."


async def test_a_server_that_cannot_count_streams_is_asked_without(server: Scripted, open_port: Keep) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if "stream_options" in body:
            return Reply({"error": {"message": "Unknown parameter: stream_options"}}, status=400)
        return in_pieces([(0, chunk(content="Paris.") + chunk("stop") + event("[DONE]"))])

    server.answer = answer
    port = open_port(OpenAILLM(streaming(server)))
    assert [(await port.invoke(ASK)).text for _ in range(2)] == ["Paris."] * 2
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


async def test_a_server_that_keeps_the_stream_open_is_disconnected(server: Scripted, open_port: Keep) -> None:
    server.answer = lambda _: in_pieces([(0, streamed(completion())), SILENCE])
    assert await open_port(OpenAILLM(streaming(server, 10))).invoke(ASK) == PARIS


async def test_thoughts_refusals_and_other_choices_are_distinguished(server: Scripted, open_port: Keep) -> None:
    other = event({"choices": [{"index": 1, "delta": {"content": "Rome"}, "finish_reason": "stop"}]})
    said = [chunk(reasoning_content="Well, "), chunk(reasoning_content="Paris?"), other, chunk(content="Paris.")]
    server.answer = lambda _: in_pieces([(0, "".join([*said, chunk("stop"), USAGE, event("[DONE]")]))])
    reply = await open_port(OpenAILLM(streaming(server))).invoke(ASK)
    assert (reply.text, reply.reasoning) == ("Paris.", "Well, Paris?")
    server.answer = lambda _: in_pieces([(0, chunk(refusal="I can't.") + chunk("stop") + event("[DONE]"))])
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).text == "I can't."


def _piece(index: int | None, id: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = {"function": {"arguments": arguments, **({"name": name} if name else {})}}
    return {**found, **({"index": index} if index is not None else {}), **({"id": id} if id else {})}


A = ToolCall("a", "read_file", {"path": "a.txt"})
B = ToolCall("b", "list_files", {})


@pytest.mark.parametrize(
    "pieces",
    [
        [
            [_piece(0, "a", "read_file", "")],
            [_piece(0, None, None, '{"path": ')],
            [_piece(0, None, None, '"a.txt"}')],
            [_piece(1, "b", "list_files", "{}")],
        ],
        [
            [_piece(0, "a", "read_file", '{"path": '), _piece(1, "b", "list_files", "{")],
            [_piece(1, None, None, "}"), _piece(0, None, None, '"a.txt"}')],
        ],
        [
            [_piece(0, "a", "read_file", '{"path": ')],
            [_piece(0, "a", "read_file", '"a.txt"}')],
            [_piece(1, "b", "list_files", "{}")],
        ],
        [
            [_piece(None, "a", "read_file", '{"path": ')],
            [_piece(None, None, None, '"a.txt"}')],
            [_piece(None, "b", "list_files", "{}")],
        ],
        [[_piece(None, "a", "read_file", '{"path": "a.txt"}'), _piece(None, "b", "list_files", "{}")]],
        [[_piece(0, "a", "read_file", '{"path": "a.txt"}')], [_piece(0, "b", "list_files", "{}")]],
        [
            [_piece(0, "a", "read_file", '{"path": "a.txt"}'), _piece(0, "b", "list_files", "{")],
            [_piece(0, "", "", "}")],
        ],
        [
            [_piece(0, "x", "read_file", '{"path": ')],
            [_piece(0, "a", None, '"a.txt"}')],
            [_piece(1, "b", "list_files", "{}")],
        ],
    ],
    ids=[
        *("one after the other", "side by side", "names repeated", "without numbers", "whole and without numbers"),
        *("all numbered 0", "all numbered 0 in pieces", "a new id with each piece"),
    ],
)
async def test_calls_of_tools_are_put_together(
    pieces: list[list[dict[str, Any]]], server: Scripted, open_port: Keep, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("4711")
    calling = "".join(chunk(tool_calls=piece) for piece in pieces) + chunk("tool_calls") + USAGE + event("[DONE]")
    replies = [calling, streamed(completion("It is 4711."))]
    server.answer = lambda _: in_pieces([(0, replies.pop(0))])
    reply = await open_port(OpenAIAgent(streaming(server))).run(ASK, AgentOptions(workspace=tmp_path))
    assert reply.trace == (
        Message.assistant("", [A, B]),
        Message.tool("4711", A),
        Message.tool("a.txt (4 bytes)", B),
        Message.assistant("It is 4711."),
    )
    assert reply.usage == Usage(14, 6, calls=2)


async def test_a_judge_may_stream(server: Scripted, open_port: Keep) -> None:
    server.answer = lambda _: in_pieces([(0, streamed(completion('{"city": "Paris"}')))])
    reply = await open_port(OpenAIParser(streaming(server))).parse(ASK, {"type": "object", "properties": {}})
    assert (reply.text, reply.mode) == ('{"city": "Paris"}', "json_schema")


@pytest.mark.parametrize(
    "extra", [{"first_token_timeout": 3}, {"stream": True, "first_token_timeout": 0}, {"body": {"stream_options": {}}}]
)
def test_settings_that_make_no_sense_are_refused(extra: dict[str, Any]) -> None:
    (spec,) = plugin.karenina_adapters()
    assert spec.check is not None
    with pytest.raises(AdapterConfigError, match="extra"):
        spec.check(model("http://127.0.0.1:9/v1", extra=extra))


def said(*deltas: Any, finish: Any = "stop", **last: Any) -> bytes:
    """Return a stream with these deltas, and a finish reason unless it is None."""
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    message = {"message": last.pop("message")} if "message" in last else {}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish, **message}], **last}
    return "".join(map(event, [*chunks, *([end] if finish is not None else [])])).encode()


def messages(*contents: Any) -> bytes:
    """Return a stream of messages in place of deltas."""
    chunks = [{"choices": [{"index": 0, "delta": {}, "message": {"content": content}}]} for content in contents]
    return "".join(map(event, chunks)).encode() + said()


DONE = b"data: [DONE]\n\n"


def sends(server: Scripted, *streams: bytes) -> None:
    """Send these streams one after the other, and the last one again and again."""
    left = list(streams)
    server.answer = lambda _: in_pieces([(0, left.pop(0) if len(left) > 1 else left[0])])


@pytest.mark.parametrize(
    ("stream", "text", "reasoning"),
    [
        (
            said({"content": [{"type": "text", "text": "Par"}]}, {"content": [{"type": "text", "text": "is."}]}),
            "Paris.",
            None,
        ),
        (
            said(
                {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Bonn?"}]}]},
                {"content": "Paris."},
            ),
            "Paris.",
            "Bonn?",
        ),
        (
            said({"reasoning_details": [{"type": "reasoning.text", "text": "Bonn?"}]}, {"content": "Paris."}),
            "Paris.",
            "Bonn?",
        ),
        (b"\xef\xbb\xbf" + said({"content": "Paris."}), "Paris.", None),
        (said({"content": "Paris."}).replace(b"\n", b"\r"), "Paris.", None),
        (said({"content": "Paris."}).replace(b"\n", b"\r\n"), "Paris.", None),
        (event({"choices": [{"message": {"content": "Paris."}, "finish_reason": "stop"}]}).encode(), "Paris.", None),
        (said({"content": "Pa"}, {"content": "ris."}, message={"content": "Paris."}), "Paris.", None),
        (said({"content": "Paris."}, message={"content": ""}), "Paris.", None),
        (said({"content": "Bonn? Par"}, message={"content": "Paris."}), "Paris.", None),
        (messages("Par", "is", "."), "Paris.", None),
        (messages("Par", "Paris", "Paris."), "Paris.", None),
        (messages([{"type": "text", "text": "Par"}, {"type": "text", "text": "is."}]), "Paris.", None),
    ],
)
async def test_an_odd_stream_is_read(
    stream: bytes, text: str, reasoning: str | None, server: Scripted, open_port: Keep
) -> None:
    sends(server, stream + DONE)
    found = await open_port(OpenAILLM(streaming(server))).invoke(ASK)
    assert (found.text, found.reasoning) == (text, reasoning)


async def test_an_unknown_part_of_a_stream_is_noted(server: Scripted, open_port: Keep) -> None:
    sends(server, said({"content": [{"type": "hologram", "data": "Bonn"}]}, {"content": "Paris."}) + DONE)
    found = await open_port(OpenAILLM(streaming(server))).invoke(ASK)
    assert found.text == "Paris."
    assert "hologram" in found.notes[0]


async def test_counts_of_nothing_at_the_end_replace_no_count(server: Scripted, open_port: Keep) -> None:
    counted = {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    nothing = event({"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}).encode()
    sends(server, said({"content": "Paris."}, **counted) + nothing + DONE)
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).usage == Usage(7, 3, calls=1)


async def test_usage_in_the_choice_is_counted(server: Scripted, open_port: Keep) -> None:
    choice = {"index": 0, "delta": {"content": "Paris."}, "finish_reason": "stop"}
    sends(
        server, event({"choices": [{**choice, "usage": {"prompt_tokens": 7, "completion_tokens": 3}}]}).encode() + DONE
    )
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).usage == Usage(7, 3, calls=1)


async def test_the_service_tier_of_a_stream_is_counted(server: Scripted, open_port: Keep) -> None:
    said_flex = event({"service_tier": "flex", "choices": [{"delta": {"content": "Paris."}, "finish_reason": "stop"}]})
    sends(server, (said_flex + USAGE).encode() + DONE)
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).usage == Usage(7, 3, calls=1, flex_calls=1)


async def test_a_stream_that_cites_pages_has_searched(server: Scripted, open_port: Keep) -> None:
    cited = event({"choices": [{"delta": {"annotations": [{"type": "url_citation"}]}, "finish_reason": "stop"}]})
    sends(server, (event({"choices": [{"delta": {"content": "Paris."}}]}) + cited + USAGE).encode() + DONE)
    reply = await open_port(OpenAILLM(streaming(server))).invoke(ASK)
    assert (reply.text, reply.usage) == ("Paris.", Usage(7, 3, calls=1, web_searches=1))


async def test_the_service_tier_of_a_failed_stream_is_counted(server: Scripted, open_port: Keep) -> None:
    said_flex = event({"service_tier": "flex", "choices": [{"delta": {"content": "Par"}}]})
    failed = event({"error": {"message": "overloaded"}, "usage": {"prompt_tokens": 7, "completion_tokens": 1}})
    sends(server, (said_flex + failed).encode())
    assert (await fails(open_port(OpenAILLM(streaming(server))))).usage == Usage(7, 1, calls=1, flex_calls=1)


async def test_an_error_code_of_minimax_in_a_stream_decides(server: Scripted, open_port: Keep) -> None:
    ended = event({"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}})
    sends(server, (event({"choices": [{"delta": {"content": "Par"}}]}) + ended).encode())
    assert (await fails(open_port(OpenAILLM(streaming(server))))).category is ErrorCategory.RATE_LIMIT


async def test_the_usage_in_the_last_piece_of_groq_is_counted(server: Scripted, open_port: Keep) -> None:
    own = {"x_groq": {"id": "req_1", "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}}
    sends(server, said({"content": "Paris."}, **own) + DONE)
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).usage == Usage(7, 3, calls=1)


async def test_large_integers_in_streamed_object_arguments_stay_exact(server: Scripted, open_port: Keep) -> None:
    large = 2**64 + 1
    call = {"index": 0, "id": "c", "function": {"name": "Answer", "arguments": {"n": large}}}
    sends(server, said({"tool_calls": [call]}, finish="tool_calls") + DONE)
    parser = OpenAIParser(streaming(server, structured="tool"))
    found = await open_port(parser).parse(ASK, {"type": "object", "properties": {}})
    assert json.loads(found.text) == {"n": large}


async def test_an_old_function_call_of_a_stream_is_read(server: Scripted, open_port: Keep) -> None:
    pieces = [
        {"function_call": {"name": "Answer", "arguments": '{"ci'}},
        {"function_call": {"arguments": 'ty": "Paris"}'}},
    ]
    sends(server, said(*pieces, finish="function_call") + DONE)
    parser = OpenAIParser(streaming(server, structured="tool"))
    assert (await open_port(parser).parse(ASK, {"type": "object", "properties": {}})).text == '{"city": "Paris"}'


async def test_a_stream_without_a_reason_is_broken_off_if_others_have_one(server: Scripted, open_port: Keep) -> None:
    port = open_port(OpenAILLM(streaming(server)))
    sends(server, said({"content": "Paris."}) + DONE, said({"content": "Par"}, finish=None) + DONE)
    await port.invoke(ASK)
    assert (await fails(port)).category is ErrorCategory.CONNECTION


async def test_a_server_without_reasons_is_believed_after_five(server: Scripted, open_port: Keep) -> None:
    port = open_port(OpenAILLM(streaming(server)))
    sends(server, said({"content": "Paris."}, finish=None) + DONE)
    assert [(await fails(port)).category for _ in range(5)] == [ErrorCategory.INCOMPLETE] * 5
    found = await port.invoke(ASK)
    assert (found.text, found.finish_reason, found.server_reason) == ("Paris.", "other", "(none)")


async def test_a_stream_without_reason_and_end_is_never_believed(server: Scripted, open_port: Keep) -> None:
    port = open_port(OpenAILLM(streaming(server)))
    sends(server, said({"content": "Paris."}, finish=None))
    assert [(await fails(port)).category for _ in range(7)] == [ErrorCategory.CONNECTION] * 7


@pytest.mark.parametrize(("reason", "end"), [("content_filter", "content_filter"), ("length", "length")])
async def test_a_normal_end_does_not_hide_an_earlier_one(
    reason: str, end: str, server: Scripted, open_port: Keep
) -> None:
    cut = event({"choices": [{"index": 0, "delta": {"content": "Par"}, "finish_reason": reason}]}).encode()
    sends(server, cut + said() + DONE)
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).finish_reason == end


@pytest.mark.parametrize("last", [{"completion_tokens": 0}, {"completion_tokens": 1}, {}])
async def test_a_last_usage_loses_no_tokens(last: dict[str, int], server: Scripted, open_port: Keep) -> None:
    counted = said({"content": "Paris."}, usage={"prompt_tokens": 7, "completion_tokens": 300})
    later = event({"choices": [], "usage": {"prompt_tokens": 7, **last}}).encode()
    sends(server, counted + later + DONE)
    assert (await open_port(OpenAILLM(streaming(server))).invoke(ASK)).usage == Usage(7, 300, calls=1)


async def test_calls_that_are_numbered_0_and_have_no_ids_are_separate(
    server: Scripted, open_port: Keep, tmp_path: Path
) -> None:
    pieces = [_piece(0, None, "list_files", "{}"), _piece(0, None, "read_file", '{"path": "a.txt"}')]
    replies = [said(*({"tool_calls": [piece]} for piece in pieces)) + DONE, streamed(completion("Done."))]
    server.answer = lambda _: in_pieces([(0, replies.pop(0))])
    reply = await open_port(OpenAIAgent(streaming(server))).run(ASK, AgentOptions(workspace=tmp_path))
    assert [call.name for call in reply.trace[0].tool_calls] == ["list_files", "read_file"]


@pytest.mark.parametrize("id", ["a", None])
async def test_a_message_after_the_calls_repeats_them(id: str | None, server: Scripted, open_port: Keep) -> None:
    pieces = [_piece(0, id, "Answer", '{"city": '), _piece(0, None, None, '"Paris"}')]
    whole = {"content": None, "tool_calls": [_piece(None, id, "Answer", '{"city":"Paris"}')]}
    calls = [{"tool_calls": [piece]} for piece in pieces]
    sends(server, said(*calls, finish="tool_calls", message=whole) + DONE)
    parser = OpenAIParser(streaming(server, structured="tool"))
    assert (await open_port(parser).parse(ASK, {"type": "object", "properties": {}})).text == '{"city":"Paris"}'


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "said_of_prompt",
    [
        {"prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": True, "severity": "high"}}}]},
        {"promptFeedback": {"blockReason": "SAFETY"}},
    ],
)
async def test_a_filtered_prompt_without_choices_is_a_refusal(
    said_of_prompt: dict[str, Any], stream: bool, server: Scripted, open_port: Keep
) -> None:
    body = {"choices": [], **said_of_prompt}
    server.answer = lambda _: in_pieces([(0, event(body) + event("[DONE]"))]) if stream else Reply(body)
    error = await fails(open_port(OpenAILLM(model(server.url, extra={"stream": stream}))))
    assert error.category is ErrorCategory.FILTERED
