"""The modes that a server supports are learned once, from refusals of the feature and from nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from karenina_core.models.ports import ErrorCategory, Message, PortError, StructuredMode
from karenina_testing.virtual_time import run_in_virtual_time
from karenina_toolkit.http.http_errors import HTTPStatusError, status_error
from karenina_toolkit.structured.structured_modes import (
    MODES,
    PATIENCE,
    ModeUnsupported,
    Refusal,
    append_schema,
    classify_refusal,
    with_best_mode,
)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
OTHER = {"type": "object", "properties": {"gene": {"type": "string"}}}


def failure(status: int, said: str) -> HTTPStatusError:
    return status_error("a server", status, {}, said, (), ())


LACKS: dict[StructuredMode, str] = {
    "json_schema": "response_format of type 'json_schema' is not supported with this model",
    "tool": "this model does not support tools",
}


@dataclass
class Server:
    """A server that supports some modes, with a delay, and records the requested modes."""

    takes: tuple[StructuredMode, ...] = ("prompt",)
    errors: list[PortError | None] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    seconds: float = 0.01
    name: str = "server"

    async def ask(self, mode: StructuredMode) -> str:
        self.asked.append(mode)
        error = self.errors.pop(0) if self.errors else None
        await asyncio.sleep(self.seconds)
        if error is not None:
            raise error
        if mode not in self.takes:
            raise failure(400, LACKS[mode])
        return f"asked by {mode}"

    async def once(self, schema: dict[str, Any] = SCHEMA) -> str:
        found, mode = await with_best_mode((self.name, "model"), MODES, schema, self.ask)
        assert found == f"asked by {mode}"
        return mode


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        return await work()

    return run_in_virtual_time(inside())


@pytest.mark.parametrize(
    ("takes", "asked"),
    [
        (MODES, ["json_schema"]),
        (("tool", "prompt"), ["json_schema", "tool"]),
        (("prompt",), ["json_schema", "tool", "prompt"]),
    ],
)
def test_concurrent_calls_test_each_unsupported_mode_once(takes: tuple[StructuredMode, ...], asked: list[str]) -> None:
    server = Server(takes)

    async def many() -> list[str]:
        return list(await asyncio.gather(*[server.once() for _ in range(64)]))

    assert run(many) == [takes[0]] * 64
    assert server.asked == [*asked[:-1], *asked[-1:] * 64]


def test_ports_share_refusals_within_one_run_only() -> None:
    server = Server()

    async def twice() -> None:
        await server.once()
        await server.once()

    for _ in range(2):
        run(twice)
    assert server.asked == ["json_schema", "tool", "prompt", "prompt"] * 2


def test_servers_are_distinguished() -> None:
    poor, rich = Server(name="poor"), Server(MODES, name="rich")

    async def both() -> tuple[str, str]:
        return await poor.once(), await rich.once()

    assert run(both) == ("prompt", "json_schema")


@pytest.mark.parametrize("status", [429, 500])
def test_a_connection_error_does_not_change_the_known_modes(status: int) -> None:
    server = Server(errors=[failure(status, "slow down"), None, failure(status, "slow down")])

    async def stubborn() -> str:
        while True:
            try:
                return await server.once()
            except PortError:
                continue

    async def many() -> list[str]:
        return list(await asyncio.gather(*[stubborn() for _ in range(8)]))

    assert run(many) == ["prompt"] * 8
    assert server.asked[:5] == ["json_schema", "json_schema", "tool", "tool", "prompt"]
    assert set(server.asked[5:]) == {"prompt"}


def test_a_call_that_fails_in_all_modes_teaches_nothing() -> None:
    server = Server(MODES, errors=[failure(400, LACKS["json_schema"]), failure(400, "the prompt is bad")])

    async def twice() -> str:
        with pytest.raises(PortError, match="the prompt is bad"):
            await server.once()
        return await server.once()

    assert run(twice) == "json_schema"


def test_a_refused_schema_does_not_change_the_mode_of_others() -> None:
    server = Server(MODES, errors=[failure(400, "Invalid schema for response_format 'Answer': $ref is not permitted")])

    async def four() -> list[str]:
        return [
            await server.once(SCHEMA),
            await server.once(OTHER),
            await server.once(SCHEMA),
            await server.once(OTHER),
        ]

    assert run(four) == ["tool", "json_schema", "tool", "json_schema"]
    assert server.asked == ["json_schema", "tool", "json_schema", "tool", "json_schema"]


def test_a_mode_that_worked_is_kept_after_one_refusal() -> None:
    server = Server(MODES, errors=[None, failure(400, LACKS["json_schema"])])

    async def three() -> list[str]:
        return [await server.once(SCHEMA), await server.once(OTHER), await server.once(SCHEMA)]

    assert run(three) == ["json_schema", "tool", "json_schema"]


def test_a_mode_that_the_library_lacks_is_skipped() -> None:
    server = Server(errors=[ModeUnsupported("the library has no json_schema"), ModeUnsupported("and no tools")])
    assert run(server.once) == "prompt"


def test_a_chosen_mode_is_the_only_one() -> None:
    server = Server()

    async def chosen() -> None:
        await with_best_mode("server", ("tool",), SCHEMA, server.ask)

    with pytest.raises(PortError, match="does not support tools"):
        run(chosen)
    assert server.asked == ["tool"]


def test_calls_do_not_wait_long_for_a_silent_server() -> None:
    server = Server(MODES, seconds=90)

    async def many() -> int:
        under_way = [asyncio.create_task(server.once()) for _ in range(8)]
        await asyncio.sleep(2 * PATIENCE)
        began = len(server.asked)
        await asyncio.gather(*under_way)
        return began

    assert run(many) == 8


def test_calls_do_not_wait_for_a_slow_mode_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karenina_toolkit.structured.structured_modes.PATIENCE", 0.2)
    server = Server(MODES, seconds=60)

    async def late() -> list[str]:
        first = asyncio.create_task(server.once())
        await asyncio.sleep(0.25)
        second = asyncio.create_task(server.once())
        await asyncio.sleep(0.05)
        asked = list(server.asked)
        first.cancel()
        second.cancel()
        return asked

    assert run(late) == ["json_schema"] * 2


def test_a_call_that_is_cancelled_makes_room_for_the_next() -> None:
    server = Server(seconds=0.05)

    async def two() -> str:
        first, second = asyncio.create_task(server.once()), asyncio.create_task(server.once())
        await asyncio.sleep(0.01)
        first.cancel()
        return await second

    assert run(two) == "prompt"
    assert server.asked == ["json_schema", "json_schema", "tool", "prompt"]


W, S = Refusal.MODE, Refusal.SCHEMA


@pytest.mark.parametrize(
    ("mode", "status", "said", "expected"),
    [
        ("json_schema", 400, "'response_format' of type 'json_schema' is not supported with this model.", W),
        ("json_schema", 400, "This response_format type is unavailable now", W),
        ("json_schema", 400, '{"detail": [{"loc": ["body", "response_format"], "msg": "Extra inputs ..."}]}', W),
        ("json_schema", 422, '{"detail": [{"loc": ["body", "x"], "msg": "no", "input": "response_format"}]}', None),
        ("json_schema", 400, "output_config.format: Extra inputs are not permitted", W),
        ("json_schema", 404, "No endpoints found that support the requested structured outputs", W),
        ("json_schema", 404, "No endpoints found that can handle the requested parameters.", W),
        ("json_schema", 400, "Json mode response is not supported when enable_thinking is true", W),
        (
            "json_schema",
            400,
            "Bad input: required properties at '/' are 'prompt', Type mismatch of '/response_format'",
            W,
        ),
        ("json_schema", 400, "Unknown name \"additionalProperties\" at 'generation_config.response_schema'", S),
        ("json_schema", 501, "guided decoding is not implemented", W),
        ("json_schema", 400, "Invalid schema for response_format 'Answer': 'oneOf' is not permitted.", S),
        ("json_schema", 400, "failed to parse grammar", S),
        ("json_schema", 400, "The provided JSON schema contains features not supported by xgrammar.", S),
        ("json_schema", 400, 'Grammar error: Unimplemented keys: ["uniqueItems"]', S),
        ("tool", 400, "The provided JSON schema contains features not supported by xgrammar.", S),
        ("tool", 400, "Failed to transform json schema into a grammar: unsupported format", S),
        ("tool", 400, "failed to parse grammar", S),
        ("tool", 400, "The prompt is too complex.", None),
        ("json_schema", 400, "This model doesn't support the outputConfig field. Remove outputConfig.", W),
        ("tool", 400, "This model doesn't support the toolConfig.toolChoice.any field.", W),
        ("json_schema", 400, "The compiled grammar is too large. Simplify your tool schemas.", S),
        ("json_schema", 400, "Schemas contains too many optional parameters (27).", S),
        ("json_schema", 400, "A schema in the request exceeds the maximum allowed nesting depth.", S),
        ("json_schema", 400, "Failed to generate JSON. Please adjust your prompt.", None),
        ("json_schema", 500, "response_format is not supported", None),
        ("json_schema", 401, "response_format needs a valid key: not supported without", None),
        ("json_schema", 429, "too many requests with response_format", None),
        ("json_schema", 400, "this model does not support tools", None),
        ("tool", 400, "registry/tiny:135m does not support tools", W),
        ("tool", 400, "tools param requires --jinja flag", W),
        ("tool", 400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', W),
        ("tool", 404, "No endpoints found that support tool use", W),
        ("tool", 404, "No endpoints found that can handle the requested parameters.", W),
        ("tool", 400, "tools.0.custom.input_schema: JSON schema is invalid", S),
        ("tool", 400, "maximum context length is 4097 tokens, you requested 5000 (50 in the functions)", None),
        ("tool", 400, "Failed to call a function. Please adjust your prompt.", None),
        ("prompt", 400, "nothing of this is supported", None),
    ],
)
def test_only_messages_about_the_feature_are_refusals(
    mode: StructuredMode, status: int, said: str, expected: Refusal | None
) -> None:
    assert classify_refusal(failure(status, said), mode) is expected


def test_the_schema_is_appended_to_the_system_message() -> None:
    alone = append_schema([Message.user("Paris.")], SCHEMA)
    behind = append_schema([Message.system("Extract."), Message.user("Paris.")], SCHEMA)
    assert [one.role for one in alone] == [one.role for one in behind] == ["system", "user"]
    assert behind[0].content == f"Extract.\n\n{alone[0].content}"
    assert '"city"' in alone[0].content


def test_the_category_does_not_decide_about_refusals() -> None:
    server = Server(errors=[PortError("broken", category=ErrorCategory.CONNECTION)])
    with pytest.raises(PortError, match="broken"):
        run(server.once)
    assert server.asked == ["json_schema"]
