"""A reply of a model's server fails at most its item: the run continues, within limits of memory and time.

One run of the installed command for each adapter meets all attacks, each as the reply to a question of its own. All
requests come one after another, so that the memory of the process is that of the worst reply.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from functools import cache
from itertools import chain, cycle, repeat
from typing import Any

import pytest
from conftest import Environment
from hostile_server import GOOD, LOOK, MODELS, Asked, Attack, Done, Hostile, run_against

from karenina_testing.server import Reply

MEGABYTE = 1_000_000
MEGABYTES_OF_MEMORY = 900
"""More than a process with an SDK (150) and a reply of the largest size (64, several times over) takes."""
SECONDS = 200


GZIP, DEFLATE = 31, 15


@cache
def packed_spaces(bits: int) -> bytes:
    """Return a gigabyte of spaces, packed into a thousandth of it: one packed block, a hundred times.

    Its checksum is wrong: whoever gets that far has unpacked the whole gigabyte.
    """
    packer = zlib.compressobj(9, wbits=bits)
    first, block = (packer.compress(b" " * 10 * MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + block * 99 + packer.flush()


def bomb(bits: int, encoding: str) -> Attack:
    """Return an attack that sends a packed gigabyte."""
    return lambda asked: asked.reply(packed_spaces(bits), f"Content-Encoding: {encoding}")


def endless_body(asked: Asked) -> Reply:
    """Send spaces for ever."""
    return asked.stream(repeat(b" " * MEGABYTE))


def endless_head(asked: Asked) -> Reply:
    """Send headers for ever."""
    return Reply(raw=b"HTTP/1.1 200 OK\r\n", chunks=repeat(b"X-Long: yes\r\n" * 1000))


def endless_announcements(asked: Asked) -> Reply:
    """Send heads that announce the reply, for ever."""
    return Reply(raw=b"", chunks=cycle([b"HTTP/1.1 100 Continue\r\n\r\n" * 10, 0.01]))


def drop_by_drop(asked: Asked) -> Reply:
    """Send one byte at a time."""
    body = json.dumps(asked.completion("Paris.")).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    pieces = [(body[place : place + 1], 0.1) for place in range(len(body))]
    return Reply(raw=head, chunks=list(chain.from_iterable(pieces)))


def empty_lists(asked: Asked) -> Reply:
    """Send millions of empty lists, each of which takes 20 times its bytes in memory."""
    return asked.reply(b"[" + b"[]," * (20 * MEGABYTE) + b"[]]")


def nested(levels: int) -> Attack:
    """Return an attack whose reply holds lists in lists."""

    def attack(asked: Asked) -> Reply:
        body = json.dumps(asked.completion("Paris.")).encode()
        return asked.reply(body[:-1] + b', "deep": ' + b"[" * levels + b"]" * levels + b"}")

    return attack


def odd(field: str, value: Any) -> Attack:
    """Return an attack whose reply has a value of another type in one place."""

    def attack(asked: Asked) -> Reply:
        reply = asked.completion("Paris.")
        inner = reply["choices"][0] if "choices" in reply else reply
        if field in ("content", "tool_calls") and "message" in inner:
            inner = inner["message"]
        if field in ("choices", "usage"):
            inner = reply
        inner[field] = value
        return asked.reply(json.dumps(reply).encode())

    return attack


def counting(tokens: str) -> Attack:
    """Return an attack whose reply counts tokens in this way."""

    def attack(asked: Asked) -> Reply:
        return asked.reply(json.dumps(asked.completion("Paris.", usage="COUNT")).replace('"COUNT"', tokens).encode())

    return attack


def half_a_character(asked: Asked) -> Reply:
    """Send half of a surrogate pair in the text and in the model's name."""
    reply = {**asked.completion("Paris.\ud800"), "model": "m\udfff"}
    return asked.reply(json.dumps(reply).encode())


def refusal(retry_after: str) -> Attack:
    """Return an attack that refuses the request until a time that no clock knows."""
    return lambda asked: asked.reply(b"{}", f"Retry-After: {retry_after}", status=503)


BROKEN = "no usable reply"
FAILS: dict[str, tuple[Attack, str]] = {
    "gzip bomb": (bomb(GZIP, "gzip"), "max_reply_bytes"),
    "deflate bomb": (bomb(DEFLATE, "deflate"), "max_reply_bytes"),
    "endless body": (endless_body, "max_reply_bytes"),
    "endless head": (endless_head, ""),
    "endless announcements": (endless_announcements, "request_timeout"),
    "drop by drop": (drop_by_drop, "request_timeout"),
    "empty lists": (empty_lists, "2000000"),
    "nested 100000 times": (nested(100_000), BROKEN),
    "late date": (refusal("Fri, 31 Dec 99999999999999999999 23:59:59 GMT"), "HTTP 503"),
    "late number": (refusal("1e308"), "HTTP 503"),
    "late zone": (refusal("Fri, 31 Dec 9999 23:59:59 -9999"), "HTTP 503"),
}
"""Attacks that cost their item, each with a word of its error."""
BORNE: dict[str, Attack] = {
    "count of 2 to the 63": counting(str(2**63)),
    "count of 2 to the 70": counting(str(2**70)),
    "count of less than nothing": counting("-5"),
    "half a character": half_a_character,
}
"""Attacks that cost nothing at all."""
EITHER: dict[str, Attack] = {
    "nested 900 times": nested(900),
    "list of no choices": odd("choices", [5]),
    "list as finish_reason": odd("finish_reason", [1]),
    "list as stop_reason": odd("stop_reason", [1]),
    "number of tool_calls": odd("tool_calls", 5),
    "number as content": odd("content", 5),
    "text as choices": odd("choices", "x"),
    "text as usage": odd("usage", "x"),
    "count in words": counting('"seven"'),
    "count in parts": counting("7.5"),
}
"""Attacks that some protocols do not see: they cost their item, or nothing."""
_FAILING = {name: attack for name, (attack, _) in FAILS.items()}
ATTACKS = {
    "late date": _FAILING.pop("late date"),
    **BORNE,
    "late zone": _FAILING.pop("late zone"),
    **EITHER,
    **_FAILING,
}
"""All of them. There are replies between the refusals: after two in a row, a run waits as the server asks."""
ADAPTERS = ["openai", "openai streamed", "claude_tool", "langchain"]


@pytest.fixture(scope="module", params=ADAPTERS)
def attacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Run the benchmark of all attacks once with an adapter."""
    fields = {"extra": {"stream": True}} if "streamed" in request.param else {}
    with Hostile(ATTACKS) as server:
        site = Environment(tmp_path_factory.mktemp("attacked"))
        # Some attacks last until the limit; on a busy machine, those that fill the memory need some seconds before.
        return run_against(
            site, server, request.param, "request_timeout=15", "stream_timeout=15", script=True, **fields
        )


def test_the_run_goes_on_within_its_bounds(attacked: Done) -> None:
    assert attacked.code == 0, attacked.errors
    assert "Traceback" not in attacked.errors
    assert {attacked.outcomes()[id] for id in GOOD} == {"correct"}
    assert set(attacked.results) == {*GOOD, *ATTACKS}
    assert attacked.megabytes < MEGABYTES_OF_MEMORY
    assert attacked.seconds < SECONDS


@pytest.mark.parametrize("attack", FAILS)
def test_an_attack_is_an_error_of_its_item(attack: str, attacked: Done) -> None:
    assert attacked.outcomes()[attack] == "model_error"
    word = FAILS[attack][1]
    assert (word if word != "request_timeout" else "_timeout") in attacked.error(attack)


@pytest.mark.parametrize("attack", BORNE)
def test_what_can_be_mended_costs_nothing(attack: str, attacked: Done) -> None:
    assert attacked.outcomes()[attack] == "correct", attacked.error(attack)


@pytest.mark.parametrize("attack", EITHER)
def test_odd_types_cost_their_item_at_most(attack: str, attacked: Done) -> None:
    assert attacked.outcomes()[attack] in ("model_error", "correct", "no_answer"), attacked.error(attack)


# ---- streams


def event(**delta: Any) -> bytes:
    """Return a piece of a streamed reply."""
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


def streaming(piece: bytes, *, times: int | None = None, pause: float = 0) -> Attack:
    """Return an attack that streams a piece so many times, or for ever."""

    def attack(asked: Asked) -> Reply:
        pieces = chain.from_iterable(repeat((piece, pause)) if times is None else repeat((piece, pause), times))
        last = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
        return asked.stream(chain(pieces, [last]), kind="text/event-stream")

    return attack


def call(id: str = "c", arguments: str = "{}") -> dict[str, Any]:
    """Return the call of a tool."""
    return {"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}}


def many_calls_streamed(asked: Asked) -> Reply:
    """Stream 20,000 calls of tools."""
    pieces = [
        b"".join(event(tool_calls=[{"index": index, **call()}]) for index in range(start, start + 100))
        for start in range(0, 20_000, 100)
    ]
    return asked.stream(*pieces, b"data: [DONE]\n\n", kind="text/event-stream")


STREAMS: dict[str, tuple[Attack, str]] = {
    "endless text": (streaming(event(content="x" * 10_000) * 20), "max_reply_bytes"),
    "endless line": (streaming(b"data: " + b"x" * 100_000), "max_reply_bytes"),
    "endless and slow": (streaming(event(content="x"), pause=0.1), "stream_timeout"),
    "20000 calls": (many_calls_streamed, "tool calls"),
}
PIECES = event(tool_calls=[{"index": 0, "function": {"arguments": "[1, "}}]) * 100


def test_streams_have_bounds_of_bytes_seconds_and_calls(site: Environment) -> None:
    """Attack: stream a reply that does not end, fast, in one line, or slowly; and 20,000 calls of tools."""
    with Hostile({name: attack for name, (attack, _) in STREAMS.items()}) as server:
        done = run_against(site, server, "openai", "stream_timeout=15", extra={"stream": True})
    assert done.code == 0, done.errors
    assert {done.outcomes()[id] for id in GOOD} == {"correct"}
    assert {name: done.error(name) for name, (_, word) in STREAMS.items() if word not in done.error(name)} == {}
    assert done.megabytes < MEGABYTES_OF_MEMORY


def test_arguments_in_tiny_pieces_are_put_together_in_linear_time(site: Environment) -> None:
    """Attack: stream the arguments of a call in 300,000 pieces, which took the square of their number."""
    with Hostile({"pieces": streaming(PIECES, times=3000)}) as server:
        done = run_against(site, server, "openai", "request_timeout=60", extra={"stream": True})
    assert done.code == 0, done.errors
    assert {done.outcomes()[id] for id in GOOD} == {"correct"}
    assert "timeout" not in done.error("pieces")


# ---- large replies


@pytest.mark.parametrize("adapter", MODELS)
def test_an_answer_of_fifty_megabytes_costs_its_item_at_most(adapter: str, site: Environment) -> None:
    """Attack: answer with a text of nearly the largest size."""
    with Hostile({"long": lambda asked: asked.says("Paris. " + "x" * 50 * MEGABYTE)}) as server:
        done = run_against(site, server, adapter, "request_timeout=100")
    assert done.code == 0, done.errors
    assert {done.outcomes()[id] for id in GOOD} == {"correct"}
    assert "long" in done.results
    assert done.megabytes < 2 * MEGABYTES_OF_MEMORY
    for file in site.folder.iterdir():
        file.unlink()  # hundreds of megabytes


# ---- agents


def once(**message: Any) -> Attack:
    """Return an attack on an agent: a message with calls, and an answer after the tools have spoken."""
    return lambda asked: asked.says("Paris.") if asked.heard_tools() else asked.says(None, **message)


def deep_arguments(asked: Asked) -> Reply:
    """Send arguments that are nested 400 times."""
    deep = "[" * 400 + "]" * 400
    reply = asked.completion(None, tool_calls=[call(arguments="DEEP")])
    text = json.dumps(reply).replace('"input": {}', f'"input": {{"deep": {deep}}}').replace('"DEEP"', json.dumps(deep))
    return asked.says("Paris.") if asked.heard_tools() else asked.reply(text.encode())


AGENTS: dict[str, tuple[Attack, str]] = {
    "20000 calls": (once(tool_calls=[call(f"c{number}") for number in range(20_000)]), "tool calls"),
    "half an id": (once(tool_calls=[call("c\ud800")]), "surrogate"),
    "deep arguments": (deep_arguments, ""),
}


@pytest.mark.parametrize("adapter", MODELS)
def test_an_agent_is_asked_for_a_bounded_number_of_calls(adapter: str, site: Environment) -> None:
    """Attack: ask an agent for 20,000 calls, for one with half a character as its id, and for arguments in depth."""
    with Hostile({name: attack for name, (attack, _) in AGENTS.items()}) as server:
        done = run_against(site, server, adapter, mcp_urls_dict={"tools": f"{server.url}/mcp"})
    assert done.code == 0, done.errors
    assert {done.outcomes()[id] for id in GOOD} == {"correct"}
    assert {name: done.error(name) for name, (_, word) in AGENTS.items() if word not in done.error(name)} == {}
    assert "Traceback" not in done.errors


# ---- MCP servers


def tool_says(
    data: bytes | Callable[[], bytes], *, kind: str = "application/json", packed: str = "", times: int | None = 1
) -> Attack:
    """Return an attack by a tool: the model calls it, and it sends the data so many times, or for ever."""

    def attack(asked: Asked) -> Reply:
        if not asked.path.startswith("/mcp"):
            name = str(asked.body["messages"][0]["content"])
            calls = [call(arguments=json.dumps({"for": name}))]
            return asked.says("Paris.") if asked.heard_tools() else asked.says(None, tool_calls=calls)
        sending = data if isinstance(data, bytes) else data()
        return asked.stream(repeat(sending) if times is None else [sending] * times, kind=kind, packed=packed)

    return attack


TOOLS: dict[str, Attack] = {
    "tool bomb": tool_says(lambda: packed_spaces(GZIP), packed="gzip"),
    "tool without end": tool_says(b" " * MEGABYTE, times=None),
    "tool with an endless event": tool_says(b"data: " + b"x" * MEGABYTE, kind="text/event-stream", times=None),
    "tool in depth": tool_says(b"[" * 100_000 + b"]" * 100_000),
    "tool of another type": tool_says(b'{"jsonrpc": "2.0", "id": [1], "result": 5}'),
}


def test_an_agent_continues_after_an_oversized_tool_result(site: Environment) -> None:
    """Attack: send a packed gigabyte, a body, an event or a nesting without an end as the result of a tool."""
    with Hostile(TOOLS) as server:
        places = {"tools": f"{server.url}/mcp"}
        options = {"tools": {"call_timeout": 20}}
        done = run_against(site, server, "openai", mcp_urls_dict=places, mcp_server_options=options)
    assert done.code == 0, done.errors
    assert set(done.outcomes().values()) == {"correct"}
    assert "Traceback" not in done.errors
    assert done.megabytes < MEGABYTES_OF_MEMORY


def test_a_list_of_too_many_tools_is_refused(site: Environment) -> None:
    """Attack: list 20,000 tools."""
    many = {"tools": [{**LOOK, "name": f"look{number}"} for number in range(20_000)]}
    with Hostile({"tools/list": lambda asked: asked.result(many)}) as server:
        done = run_against(site, server, "openai", questions=GOOD, mcp_urls_dict={"tools": f"{server.url}/mcp"})
    assert done.code == 4, "all items are errors"
    assert {"more than 1000 tools" in done.error(id) for id in GOOD} == {True}


# ---- bytes that were not asked for


@pytest.mark.parametrize("pause", [0, 0.1])
@pytest.mark.parametrize("adapter", MODELS)
def test_bytes_that_nobody_asked_for_are_no_answer(adapter: str, pause: float, site: Environment) -> None:
    """Attack: send another reply after the first, over the same connection: at once, or while a tool is at work."""

    def forge(asked: Asked) -> Reply:
        if asked.heard_tools():
            return asked.says("Paris.")
        replies = (asked.completion(None, tool_calls=[call()]), asked.completion("FORGED"))
        bodies = [json.dumps(one).encode() for one in replies]
        first, second = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies]
        return Reply(raw=first, chunks=[pause, second]) if pause else Reply(raw=first + second)

    with Hostile({"forged": forge}, slow=0.4) as server:
        places = {"tools": f"{server.url}/mcp"}
        usual = ("retry_connection=2", "retry_server=2")
        done = run_against(site, server, adapter, *usual, questions={"q": "ATTACK: forged."}, mcp_urls_dict=places)
    assert done.code == 0, done.errors
    assert done.outcomes() == {"q": "correct"}, done.error("q")
    assert "FORGED" not in json.dumps(done.results)
