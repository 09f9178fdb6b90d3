"""The scripted server: formats, items, sides, shares and the log, seen by a real client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from raw_client import PATIENCE, chat, connect, exchange, hear, request

from karenina_core.models.ports import ToolCall, Usage
from karenina_testing.fixtures import scripted_server as scripted_server
from karenina_testing.server import Reply, Request, Say, ScriptedServer, Side, faults

SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
SHARES = {faults.status(429): 0.1, faults.status(500): 0.1, faults.cut_json: 0.1}


def said(server: ScriptedServer, text: str, **fields: Any) -> str:
    """Return what a model says."""
    return str(json.loads(exchange(server.url, chat(text, **fields)).body)["choices"][0]["message"]["content"])


def events(body: bytes) -> list[Any]:
    """Return the JSON of the events of a stream."""
    found = [line[6:] for line in body.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(data) for data in found if data != "[DONE]"]


def test_an_item_has_its_replies_in_order() -> None:
    with ScriptedServer({"Spain": [faults.status(429, retry_after=1), "Madrid."], "France": "Paris."}) as server:
        assert exchange(server.url, chat("The capital of Spain?")).status == 429
        assert [said(server, "The capital of Spain?") for _ in range(2)] == ["Madrid.", "Madrid."]
        assert said(server, "The capital of France?") == "Paris."
        assert [(entry.call, entry.status, entry.fault) for entry in server.log["Spain"]] == [
            (1, 429, "429"),
            (2, 200, None),
            (3, 200, None),
        ]
        assert server.log["France"][0].request.body["messages"][0]["content"] == "The capital of France?"
        assert server.log["France"][0].body["choices"][0]["message"]["content"] == "Paris."


def test_a_mark_names_the_item_before_any_text() -> None:
    with ScriptedServer({"17": "by mark", "France": "by text"}) as server:
        assert said(server, "[item 17] The capital of France?") == "by mark"
        assert said(server, "The capital of France?") == "by text"
        assert said(server, "Neither.") == "I do not know."
        assert list(server.log.by_item()) == ["17", "France", "Neither."]


def test_the_item_may_be_a_function_of_the_request() -> None:
    with (
        ScriptedServer({"blue": "sky"}, item_of=lambda one: one.headers["x-item"]) as server,
        connect(server.url) as connection,
    ):
        connection.sendall(request(chat("?"), "/v1/chat/completions", "X-Item: blue"))
        assert b"sky" in hear(connection, pause=PATIENCE, one=True).data


def test_the_judge_has_a_side_of_its_own() -> None:
    with ScriptedServer({"17": "Paris."}, judge={"17": [faults.reset, '{"city": "Paris"}']}) as server:
        assert said(server, "[item 17]") == "Paris."
        assert exchange(server.url, chat("[item 17]", response_format=SCHEMA)).end == "reset"
        assert said(server, "[item 17]", response_format=SCHEMA) == '{"city": "Paris"}'
        by_path = exchange(server.url, chat("[item 17]"), "/judge/v1/chat/completions")
        assert b"city" in by_path.body
        assert [(entry.side, entry.call) for entry in server.log["17"]] == [
            ("answer", 1),
            ("judge", 1),
            ("judge", 2),
            ("judge", 3),
        ]


def test_a_function_may_reply_and_may_wait() -> None:
    async def later(request: Request) -> str:
        await asyncio.sleep(0.01)
        return request.texts[-1][1].upper()

    with ScriptedServer(Side(lambda one: Say(one.path))) as server:
        assert said(server, "Hi") == "/v1/chat/completions"
        server.says(later)
        assert said(server, "Hi") == "HI"


def test_a_function_that_raises_is_a_problem_of_the_test() -> None:
    def wrong(_: Request) -> str:
        raise LookupError("a mistake in the script")

    with pytest.raises(LookupError, match="a mistake in the script"), ScriptedServer(wrong) as server:
        assert exchange(server.url, chat("Hi")).end == "closed"


@pytest.mark.parametrize("name", ["item_of", "is_judge", "is_call"])
def test_a_reader_of_requests_that_raises_is_a_problem_of_the_test(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def wrong(_: Request) -> Any:
        raise LookupError(f"a mistake in {name}")

    options: dict[str, Any] = {name: wrong}
    with pytest.raises(LookupError, match=f"a mistake in {name}"), ScriptedServer(**options) as server:
        assert exchange(server.url, chat("Hi")).end == "closed"
    assert caplog.records == []


@pytest.mark.parametrize("chunks", [None, [b"a", object()]])
def test_a_reply_that_is_not_json_is_a_problem_of_the_test(chunks: list[Any] | None) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"), ScriptedServer(Reply(object(), chunks=chunks)) as one:
        assert exchange(one.url, chat("Hi")).end in ("closed", "reset")


def test_a_problem_is_a_note_on_the_error_of_the_block() -> None:
    def wrong(_: Request) -> str:
        raise LookupError("a mistake in the script")

    def ask() -> None:
        with ScriptedServer(wrong) as server:
            assert exchange(server.url, chat("Hi")).end == "closed"
            raise ConnectionError("no reply")

    with pytest.raises(ConnectionError) as caught:
        ask()
    assert caught.value.__notes__ == ["a problem with the scripted server: LookupError('a mistake in the script')"]


def test_a_function_that_blocks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over = threading.Event(), threading.Event()

    def wait_for_nothing(_: Request) -> str:
        begun.set()
        over.wait(120)
        return "late"

    def ask(sent: Any) -> None:
        with ScriptedServer(sent) as server, connect(server.url) as connection:
            connection.sendall(request(chat("Hi")))
            assert begun.wait(60)

    async def wait_in_a_coroutine(asked: Request) -> str:
        return wait_for_nothing(asked)

    monkeypatch.setattr("karenina_testing.server.scripted.WAIT", 0.3)
    try:
        with pytest.raises(
            TimeoutError, match=r"it is blocked by .*wait_for_nothing \(test_.*\); make the function return"
        ):
            ask(wait_for_nothing)
        begun.clear()
        with pytest.raises(
            TimeoutError, match=r"it is blocked by .*wait_in_a_coroutine \(test_.*\); make the function return"
        ):
            ask(wait_in_a_coroutine)
    finally:
        over.set()


CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
DEEP = b"[" * 100_000 + b"]" * 100_000
MALFORMED = {
    "a chunk of letters": CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n",
    "a negative chunk": CHUNKED + b"-5\r\nabcdefghij\r\n0\r\n\r\n",
    "a long length": b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "a negative length": b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    "a deep body": b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(DEEP) + DEEP,
    "a deep message": request(chat(json.loads("[" * 900 + "]" * 900))),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_gets_status_400(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedServer("Paris.") as server:
        with connect(server.url) as connection, connect(server.url) as other:
            connection.sendall(MALFORMED[name])
            heard = hear(connection, pause=PATIENCE)
            assert (heard.status, heard.end) == (400, "closed")
            other.sendall(request(chat("Hi")))
            assert b"Paris." in hear(other, pause=PATIENCE, one=True).body
        assert [entry.item for entry in server.log] == ["Hi"]
    assert caplog.records == []


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_streams_become_part_of_the_log(path: str) -> None:
    with ScriptedServer("Paris.") as server, connect(server.url) as connection:
        connection.sendall(request({**chat("Hi"), "stream": True}, path))
        hear(connection, pause=PATIENCE, one=True)
        with urllib.request.urlopen(f"{server.url}/log") as reply:
            (shown,) = [json.loads(line) for line in reply.read().splitlines()]
    assert "Paris." in json.dumps(shown["body"])


def test_keys_are_masked_where_the_log_becomes_text() -> None:
    keys = ["Authorization: Bearer s3cret", "X-Api-Key: s3cret", "api-key: s3cret", "x-goog-api-key: s3cret"]
    keys += ["Cookie: id=s3cret", "Proxy-Authorization: Basic s3cret", "Accept: text/plain"]
    path = "/v1/chat?key=s3cret&api_key=s3cret&api%2Dkey=s3cret&access_token=s3cret&sig=s3cret&alt=sse"
    with ScriptedServer() as server, connect(server.url) as connection:
        connection.sendall(request(chat("Hi"), path, *keys))
        hear(connection, pause=PATIENCE, one=True)
        with urllib.request.urlopen(f"{server.url}/log") as reply:
            (shown,) = [json.loads(line) for line in reply.read().splitlines()]
        (entry,) = server.log
    assert shown == entry.to_dict() == json.loads(server.log.to_jsonl())
    assert "s3cret" not in json.dumps(shown)
    assert shown["path"] == "/v1/chat?key=***&api_key=***&api%2Dkey=***&access_token=***&sig=***&alt=sse"
    assert (shown["headers"]["authorization"], shown["headers"]["accept"]) == ("***", "text/plain")
    assert entry.request.headers["authorization"] == "Bearer s3cret"


def test_completions_have_tools_usage_thoughts_and_log_probabilities() -> None:
    call = ToolCall("c1", "look", {"at": "map"})
    logprobs = {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": []}]}
    say = Say("A", (call,), "Hm.", usage=Usage(5, 3, 2, 1, 1), logprobs=logprobs)
    with ScriptedServer(say) as server:
        whole = json.loads(exchange(server.url, chat("Hi")).body)
        streamed = events(exchange(server.url, chat("Hi", stream=True, stream_options={"include_usage": True})).body)
    (choice,) = whole["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": "map"}'}
    assert (choice["message"]["reasoning_content"], choice["logprobs"]) == ("Hm.", logprobs)
    assert whole["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    deltas = [one["choices"][0]["delta"] for one in streamed if one["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == "A"
    parts = [part["function"]["arguments"] for delta in deltas for part in delta.get("tool_calls", ())]
    assert "".join(parts) == '{"at": "map"}'
    assert streamed[-1]["usage"] == whole["usage"]
    assert streamed[-2]["choices"][0]["logprobs"] == logprobs


def test_messages_are_spoken_streamed_or_not() -> None:
    say = Say("It is far.", (ToolCall("c1", "look", {"at": "map"}),), "Hm.", usage=Usage(9, 3, 2, 1, 1, 4))
    with ScriptedServer(say) as server:
        whole = json.loads(exchange(server.url, chat("Hi"), "/v1/messages").body)
        heard = exchange(server.url, chat("Hi", stream=True), "/v1/messages").body
    assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use"]
    assert (whole["stop_reason"], whole["usage"]["input_tokens"]) == ("tool_use", 3)
    streamed = events(heard)
    assert heard.startswith(b"event: message_start\ndata: ")
    assert streamed[-1] == {"type": "message_stop"}
    deltas = [one["delta"] for one in streamed if one["type"] == "content_block_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == "It is far."
    assert "".join(delta.get("partial_json", "") for delta in deltas) == '{"at": "map"}'


def test_models_are_listed_and_not_logged() -> None:
    with ScriptedServer(models=["a", "b"]) as server:
        with urllib.request.urlopen(f"{server.url}/v1/models") as reply:
            assert [model["id"] for model in json.loads(reply.read())["data"]] == ["a", "b"]
        assert len(server.log) == 0


def test_a_connection_serves_many_requests_sent_at_once() -> None:
    with ScriptedServer({"1": "one", "2": "two"}) as server, connect(server.url) as connection:
        connection.sendall(request(chat("[item 1]")) + request(chat("[item 2]")))
        heard = hear(connection, pause=PATIENCE, until=b'"two"').data
        assert heard.index(b'"one"') < heard.index(b'"two"')
        assert (server.connections, [entry.request.connection for entry in server.log]) == (1, [1, 1])


def test_a_request_may_come_in_chunks_and_in_pieces() -> None:
    data = json.dumps(chat("[item 1]")).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    with ScriptedServer({"1": "one"}) as server, connect(server.url) as connection:
        connection.sendall(head)
        assert hear(connection).data == b"HTTP/1.1 100 Continue\r\n\r\n"
        for start in range(0, len(data), 20):
            piece = data[start : start + 20]
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")
        assert b'"one"' in hear(connection, pause=PATIENCE, one=True).data


def test_calls_beyond_the_limit_are_refused() -> None:
    async def when_all_have_come(_: Request) -> str:
        while len(server.log) < 4:  # noqa: ASYNC110 - the log has no event of asyncio
            await asyncio.sleep(0.01)
        return "yes"

    with ScriptedServer(when_all_have_come, allowed=2) as server, ThreadPoolExecutor(4) as pool:
        heard = list(pool.map(lambda _: exchange(server.url, chat("Hi")).status, range(4)))
        assert Counter(heard) == {200: 2, 429: 2}
        assert Counter(entry.refused for entry in server.log) == {True: 2, False: 2}


def run_of_items(seed: int, workers: int) -> dict[str, str | None]:
    """Return the fault of each of 2,000 items, from the log; each client must have seen it."""
    with ScriptedServer(Side("Paris.", shares=SHARES, seed=seed)) as server:

        def ask(numbers: range) -> dict[str, str | None]:
            found = {}
            with connect(server.url) as connection:
                for number in numbers:
                    connection.sendall(request(chat(f"[item {number}] Where?")))
                    data = b""
                    while b"\r\n\r\n" not in data or not whole(data):
                        data += connection.recv(65536)
                    status = data.split(b" ", 2)[1].decode()
                    ended = data.endswith(b"}")
                    found[str(number)] = status if status != "200" else (None if ended else "cut_json")
            return found

        seen: dict[str, str | None] = {}
        with ThreadPoolExecutor(workers) as pool:
            for one in pool.map(ask, [range(start, 2000, workers) for start in range(workers)]):
                seen |= one
        logged = {item: entries[0].fault for item, entries in server.log.by_item().items()}
        assert logged == seen
        assert all(len(entries) == 1 for entries in server.log.by_item().values())
    return logged


def whole(data: bytes) -> bool:
    """Return whether a reply is as long as it says."""
    head, _, body = data.partition(b"\r\n\r\n")
    return len(body) >= int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])


def test_the_same_seed_gives_2000_items_the_same_faults() -> None:
    one, other, third = run_of_items(7, 1), run_of_items(7, 16), run_of_items(8, 16)
    assert one == other
    assert one != third
    counts = Counter(one.values())
    assert len(one) == 2000
    assert 540 <= 2000 - counts[None] <= 660
    assert all(150 <= counts[fault.name] <= 250 for fault in SHARES)


def test_shares_beyond_the_whole_are_refused() -> None:
    with pytest.raises(ValueError, match="their sum must be at most 1"):
        Side(shares={faults.hang: 0.7, faults.reset: 0.7})


def test_a_fixture_provides_a_server(scripted_server: ScriptedServer) -> None:
    scripted_server.says(faults.status(500), {"choices": []}, "Paris.")
    assert exchange(scripted_server.url, chat("Hi")).status == 500
    assert exchange(scripted_server.url, chat("Hi")).body == b'{"choices": []}'
    assert [said(scripted_server, "Hi") for _ in range(2)] == ["Paris.", "Paris."]


def test_a_test_waits_for_requests_in_a_thread() -> None:
    with ScriptedServer() as server:
        threading.Timer(0.05, lambda: exchange(server.url, chat("Hi"))).start()
        assert server.has_requests(1)
        assert server.all_closed()


def test_a_process_of_its_own_serves_cases_literally(tmp_path: Path) -> None:
    cases = [
        {"case": "odd", "side": "answer", "status": 200, "body": {"choices": [{"finish_reason": "error"}]}},
        {"case": "odd", "side": "answer", "text": "Paris."},
        {"item": "17", "fault": "status:429:3"},
        {"item": "18", "stream": [{"choices": []}], "done": True},
        {"item": "19", "raw": "HTTP/1.1 204 None\r\n\r\n"},
    ]
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in cases))
    command = [sys.executable, "-m", "karenina_testing.server", "--script", str(file), "--reply", "Fine."]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert json.loads(exchange(url, chat("[item odd]")).body) == cases[0]["body"]
            assert b"Paris." in exchange(url, chat("[item odd]")).body
            assert "retry-after: 3" in exchange(url, chat("[item 17]")).head
            assert exchange(url, chat("[item 18]")).body == b'data: {"choices": []}\n\ndata: [DONE]\n\n'
            assert exchange(url, chat("[item 19]"), pause=0.3).data == b"HTTP/1.1 204 None\r\n\r\n"
            assert b"Fine." in exchange(url, chat("Hi")).body
            with urllib.request.urlopen(f"{url}/log") as reply:
                log = [json.loads(line) for line in reply.read().splitlines()]
            assert [(one["item"], one["fault"]) for one in log] == [
                ("odd", "odd"),
                ("odd", None),
                ("17", "429"),
                ("18", None),
                ("19", None),
                ("Hi", None),
            ]
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[]", "line 1: expected a JSON object"),
        ('{"text": "x"}', "line 1: the item is missing"),
        ('{"item": 1, "side": "x"}', "side"),
    ],
)
def test_a_script_that_is_wrong_is_refused(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(line)
    command = [sys.executable, "-m", "karenina_testing.server", "--script", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert problem in done.stderr


def test_a_case_is_read_with_its_name() -> None:
    case = {"case": "a", "side": "answer", "status": 400, "body": {"error": {}}, "right": "abstained"}
    assert Reply.from_case(case) == Reply({"error": {}}, 400, name="a")
