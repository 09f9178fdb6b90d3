"""Each fault of the scripted server, as a client sees it to the byte."""

from __future__ import annotations

import gzip
import json
import threading
import zlib
from itertools import repeat
from typing import Any

import pytest
from raw_client import PATIENCE, Heard, chat, connect, exchange, hear, request

from karenina_testing.server import Fault, Reply, ScriptedServer, faults, refusing_url


def met(fault: Fault, *, stream: bool = False, pause: float = PATIENCE) -> Heard:
    """Return what a client hears of an answer with `fault`; its log must name it."""
    with ScriptedServer({"France": fault}) as server:
        heard = exchange(server.url, chat("The capital of France?", stream=stream), pause=pause)
        (entry,) = server.log["France"]
        assert entry.fault == fault.name
    return heard


def test_a_status_has_an_error_in_the_format_of_the_request() -> None:
    with ScriptedServer(faults.status(529, retry_after=7, X_Request="17")) as server:
        completion = exchange(server.url, chat("Hi"))
        message = exchange(server.url, chat("Hi"), "/v1/messages")
    assert (completion.status, message.status) == (529, 529)
    assert "retry-after: 7" in completion.head
    assert "x-request: 17" in completion.head
    assert json.loads(completion.body)["error"]["type"] == "scripted_error"
    assert json.loads(message.body)["error"]["type"] == "overloaded_error"


def test_a_status_without_a_wait_names_none() -> None:
    assert "retry-after" not in met(faults.status(429)).head


def test_a_status_has_any_body() -> None:
    assert met(faults.status(400, body={"detail": "no"})).body == b'{"detail": "no"}'


def test_an_error_comes_with_status_200() -> None:
    heard = met(faults.error_in_body())
    assert (heard.status, "error" in json.loads(heard.body)) == (200, True)


def test_a_connection_is_closed_before_the_reply() -> None:
    heard = met(faults.close)
    assert (heard.data, heard.end) == (b"", "closed")


def test_a_connection_is_reset_before_the_reply() -> None:
    heard = met(faults.reset)
    assert (heard.data, heard.end) == (b"", "reset")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fault", "end"), [(faults.cut, "closed"), (faults.hang_in_body, "silent")])
def test_a_body_ends_in_the_middle(fault: Fault, end: str, stream: bool) -> None:
    for pause in (0.3, 3, 30):  # a busy server may take longer to come from the head to the body
        heard = met(fault, stream=stream, pause=pause)
        if heard.body:
            break
    assert (heard.status, heard.end, heard.whole) == (200, end, False)
    assert heard.body


@pytest.mark.parametrize("stream", [False, True])
def test_a_connection_is_reset_in_the_middle_of_the_body(stream: bool) -> None:
    heard = met(faults.reset_in_body, stream=stream)
    assert heard.end == "reset"
    assert not heard.data.endswith((b"}", b"0\r\n\r\n"))


def test_a_server_that_hangs_sends_no_byte() -> None:
    with ScriptedServer(faults.hang) as server, connect(server.url) as connection:
        connection.sendall(request(chat("Hi")))
        assert (hear(connection, 0.3).data, hear(connection, 0.3).end) == (b"", "silent")
        connection.close()
        assert server.all_closed()


def test_a_connection_is_refused() -> None:
    with refusing_url() as url, pytest.raises(ConnectionRefusedError):
        connect(url)


def test_json_is_cut_off_with_the_right_length() -> None:
    heard = met(faults.cut_json)
    assert (heard.status, heard.whole) == (200, True)
    with pytest.raises(ValueError, match=r"delimiter|Unterminated|Expecting"):
        json.loads(heard.body)


def test_an_empty_body_has_status_200() -> None:
    heard = met(faults.empty)
    assert (heard.status, heard.body, heard.whole) == (200, b"", True)


def test_a_content_type_is_wrong() -> None:
    heard = met(faults.content_type("text/plain"))
    assert "content-type: text/plain" in heard.head
    assert json.loads(heard.body)["choices"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("difference", [-5, 100])
def test_a_content_length_is_wrong(difference: int, stream: bool) -> None:
    heard = met(faults.content_length(difference), stream=stream)
    length = next(line for line in heard.head.splitlines() if line.startswith("content-length"))
    assert int(length.split(":")[1]) == len(heard.body) + difference
    assert heard.end == "closed"


def test_the_first_byte_is_late() -> None:
    heard = met(faults.slow_start(0.2))
    assert heard.first >= 0.2
    assert heard.whole


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_drips(stream: bool) -> None:
    heard = met(faults.drip(0.01, size=40), stream=stream)
    assert heard.whole
    assert heard.last >= 0.01 * (len(heard.body) // 40 - 1)
    assert b"I do not know." in heard.body


@pytest.mark.parametrize("stream", [False, True])
def test_an_endless_body_ends_when_the_client_leaves(stream: bool) -> None:
    with ScriptedServer(faults.endless) as server:
        with connect(server.url) as connection:
            connection.sendall(request(chat("Hi", stream=stream)))
            assert len(hear(connection, most=2**25, pause=PATIENCE).data) >= 2**25
        assert server.all_closed()
        assert [entry.whole for entry in server.log] == [False]


def test_a_reply_is_oversized() -> None:
    heard = met(faults.oversized(3))
    assert len(heard.body) > 3 * 2**20
    assert json.loads(heard.body)["choices"]


def test_a_bomb_is_small_on_the_wire() -> None:
    heard = met(faults.bomb(50))
    assert "content-encoding: gzip" in heard.head
    assert len(heard.body) < 2**18
    found = zlib.decompressobj(31).decompress(heard.body)
    assert len(found) > 50 * 2**20
    assert json.loads(gzip.decompress(heard.body))["choices"]


@pytest.mark.parametrize("stream", [False, True])
def test_bytes_are_not_utf8(stream: bool) -> None:
    with pytest.raises(UnicodeDecodeError):
        met(faults.invalid_utf8, stream=stream).body.decode()


@pytest.mark.parametrize("stream", [False, True])
def test_a_byte_order_mark_comes_first(stream: bool) -> None:
    assert met(faults.byte_order_mark, stream=stream).body.startswith(
        b"\xef\xbb\xbf{" if not stream else b"\xef\xbb\xbfd"
    )


def test_lines_of_a_stream_end_with_cr() -> None:
    body = met(faults.carriage_returns, stream=True).body
    assert b"\n" not in body
    assert body.endswith(b"data: [DONE]\r\r")


def test_comments_are_between_events() -> None:
    body = met(faults.comments, stream=True).body
    assert body.startswith(b": a comment\n\ndata: ")
    assert body.count(b": ping") == body.count(b"data: ")


def test_a_stream_ends_without_done() -> None:
    heard = met(faults.no_done, stream=True)
    assert heard.whole
    assert b"[DONE]" not in heard.body
    assert b'"finish_reason": "stop"' in heard.body


@pytest.mark.parametrize("fault", [faults.carriage_returns, faults.comments, faults.no_done])
def test_a_fault_of_streams_is_not_logged_for_other_replies(fault: Fault) -> None:
    with ScriptedServer(fault) as server:
        assert json.loads(exchange(server.url, chat("Hi")).body)["choices"]
        assert [entry.fault for entry in server.log] == [None]


def test_a_request_is_redirected() -> None:
    heard = met(faults.redirect("http://127.0.0.1:9/v1", 307))
    assert (heard.status, "location: http://127.0.0.1:9/v1" in heard.head) == (307, True)


def test_a_web_page_is_sent() -> None:
    heard = met(faults.web_page)
    assert "content-type: text/html" in heard.head
    assert heard.body.startswith(b"<!DOCTYPE html>")


def test_arbitrary_bytes_are_sent() -> None:
    heard = met(faults.raw(b"SSH-2.0-OpenSSH\r\n"))
    assert (heard.data, heard.end) == (b"SSH-2.0-OpenSSH\r\n", "closed")


def test_a_fault_spoils_the_next_reply_of_its_item() -> None:
    with ScriptedServer({"Spain": [faults.byte_order_mark, faults.cut, "Madrid."]}) as server:
        heard = [exchange(server.url, chat("The capital of Spain?")) for _ in range(3)]
    assert [one.end for one in heard] == ["open", "closed", "open"]
    assert all(b'"content": "Madrid.' in heard[number].body for number in (0, 2))


def test_arbitrary_bytes_may_go_on_for_ever() -> None:
    endless = Reply(raw=b"HTTP/1.1 200 OK\r\n", chunks=repeat(b"X-Long: yes\r\n" * 1000))
    with ScriptedServer(endless) as server:
        with connect(server.url) as connection:
            connection.sendall(request(chat("Hi")))
            heard = hear(connection, most=2**20, pause=PATIENCE).data
        assert server.all_closed()
    assert heard.startswith(b"HTTP/1.1 200 OK\r\nX-Long: yes\r\nX-Long: yes\r\n")


def test_chunks_are_sent_word_by_word() -> None:
    chunks: list[Any] = ["data: one\r\r", 0.01, b"\xff", {"a": 1}]
    with ScriptedServer(Reply(chunks=chunks, done=True, status=206)) as server:
        heard = exchange(server.url, chat("Hi"))
    assert heard.status == 206
    assert heard.body == b'data: one\r\r\xffdata: {"a": 1}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize(
    ("text", "name"), [("429", "429"), ("status:503:7", "503"), ("hang", "hang"), ("slow_start:2", "slow_start:2")]
)
def test_a_fault_has_a_name(text: str, name: str) -> None:
    assert faults.named(text).name == name


@pytest.mark.parametrize(
    ("text", "problem"),
    [("hangs", "unknown fault 'hangs'; choose one of"), ("hang:1", "takes no value"), ("drip", "missing")],
)
def test_a_name_that_is_none_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        faults.named(text)


def test_an_endless_stream_holds_up_nobody_else() -> None:
    with ScriptedServer({"France": faults.endless}) as server, connect(server.url) as greedy:
        greedy.sendall(request(chat("The capital of France?")))
        reader = threading.Thread(target=hear, args=(greedy, PATIENCE, 2**28), kwargs={"pause": PATIENCE})
        reader.start()
        assert exchange(server.url, chat("Hi")).whole
        reader.join()
