"""Replies of servers to calls, the environment of their processes, and servers that end."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from mcp_models import call, model, outcome, saying, talking, using
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from karenina_core.models.ports import ErrorCategory, Message, PortError, Tool
from karenina_mcp import MCPSource
from karenina_mcp.connection import result_text


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([TextContent(type="text", text="one"), TextContent(type="text", text="two")], "one\ntwo"),
        ([ImageContent(type="image", data="AAAA", mime_type="image/png")], "[image, image/png, 3 bytes: not shown]"),
        ([AudioContent(type="audio", data="AAA=", mime_type="audio/wav")], "[audio, audio/wav, 2 bytes: not shown]"),
        (
            [ResourceLink(type="resource_link", name="BCL2", uri="genes://bcl2")],
            "[link to a resource: BCL2: genes://bcl2]",
        ),
        (
            [EmbeddedResource(type="resource", resource=TextResourceContents(uri="f://x", text="inside"))],
            "inside",
        ),
        (
            [EmbeddedResource(type="resource", resource=BlobResourceContents(uri="f://x", blob="AA=="))],
            "[resource f://x, binary, 1 bytes: not shown]",
        ),
        ([], '{"gene": "BCL2"}'),
    ],
)
def test_results_become_text_and_other_content_is_described(blocks: list[ContentBlock], said: str) -> None:
    assert result_text(CallToolResult(content=blocks, structured_content={"gene": "BCL2"})) == said


def test_a_tool_failure_is_a_message_with_an_error() -> None:
    (said,) = saying(model({"hills": talking("fail")}), "fail")
    assert said == Message("tool", "the river is dry", tool_call_id="c1", tool_name="fail", is_error=True)


@pytest.mark.parametrize(("tool", "why"), [("refuse", "the river is closed"), ("later", "the bridge timed out")])
def test_an_error_of_a_server_is_its_own_with_any_code(tool: str, why: str) -> None:
    first, said, last = saying(model({"hills": talking("process", tool)}), "process", tool, "process")
    assert said.is_error
    assert said.content.endswith(f": {why}")
    assert first == last  # no new server was started


def test_text_that_a_server_cut_within_a_character_is_read() -> None:
    (said,) = saying(model({"hills": talking("half")}), "half")
    assert (said.content, said.is_error) == ("cut off \ufffd", False)


def test_a_call_that_takes_too_long_is_an_error() -> None:
    slow = model({"hills": talking("wait")}, mcp_server_options={"hills": {"call_timeout": 0.2}})
    (said,) = saying(slow, "wait")
    assert said.is_error
    assert said.content.endswith("did not answer within 0.2 s")


def test_calls_are_made_again_by_a_new_server(tmp_path: Path) -> None:
    """The server reads one call after the other, so the four last are under way when the first ends it."""
    names = ("stumble", *["process"] * 4)

    async def use(tools: dict[str, Tool]) -> list[Message | PortError]:
        before = await outcome(tools, "process")
        return [before, *await asyncio.gather(*(outcome(tools, name) for name in names))]

    said = using(model({"hills": talking("process", "stumble")}), use, tmp_path)
    assert [isinstance(one, Message) and not one.is_error for one in said] == [True] * 6
    before, stumbled, *others = (one.content for one in said if isinstance(one, Message))
    assert stumbled == "stumble of 1"
    assert len(set(others)) == 1
    assert before not in others


def test_a_call_that_ends_every_server_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HILLS_TOKEN", "s3cret-word")
    mortal = model({"hills": talking("echo", "die")}, mcp_server_options={"hills": {"environment": ["HILLS_TOKEN"]}})

    async def use(tools: dict[str, Tool]) -> list[Message | PortError]:
        return await asyncio.gather(*(outcome(tools, name) for name in ("echo", "die", "echo", "die", "echo")))

    said = using(mortal, use)
    assert [one.content for one in said if isinstance(one, Message)] == ["echo of 1"] * 3
    for error in (said[1], said[3]):
        assert isinstance(error, PortError)
        assert error.category is ErrorCategory.CONNECTION
        assert str(error).startswith("the tool 'die' failed twice: the MCP server 'hills' (")
        assert str(error).endswith("ended before it answered; the server wrote: my heart, ***")


def test_calls_of_a_server_that_cannot_restart_are_errors(tmp_path: Path) -> None:
    script = tmp_path / "once.py"
    script.write_text(Path(__file__).with_name("talking_server.py").read_text())
    command = talking("die").replace(str(Path(__file__).with_name("talking_server.py")), str(script))

    async def use(tools: dict[str, Tool]) -> list[Message | PortError]:
        script.unlink()
        return [await outcome(tools, "die") for _ in range(2)]

    for error in using(model({"hills": command}), use):
        assert isinstance(error, PortError)
        assert "cannot be used: Connection closed; the server wrote: " in str(error)
        assert "once.py" in str(error)


def test_a_process_gets_only_the_named_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HILLS_TOKEN", "TZ"):
        monkeypatch.setenv(name, f"value-of-{name}")
    open_handed = {"hills": {"environment": ["HILLS_TOKEN"]}}
    (plain,) = saying(model({"hills": talking("environment")}), "environment")
    (named,) = saying(model({"hills": talking("environment")}, mcp_server_options=open_handed), "environment")
    got, got_named = json.loads(plain.content), json.loads(named.content)
    assert {"PATH", "TZ"} <= set(got)
    assert not {"OPENAI_API_KEY", "HILLS_TOKEN"} & set(got)
    assert got_named["HILLS_TOKEN"] == "value-of-HILLS_TOKEN"
    assert "OPENAI_API_KEY" not in got_named


def test_a_process_works_in_the_workspace(tmp_path: Path) -> None:
    (said,) = saying(model({"hills": talking("folder")}), "folder", workspace=tmp_path)
    assert Path(said.content) == tmp_path.resolve()


@pytest.mark.parametrize(
    ("choice", "heard"),
    [("decline", "Elicitation not supported"), ("defaults", '{"action": "accept", "content": {"place": 18}}')],
)
def test_requests_for_user_input_are_answered_by_the_setting(choice: str, heard: str) -> None:
    asking = model({"hills": talking("ask")}, mcp_server_options={"hills": {"elicitation": choice}})
    (said,) = saying(asking, "ask")
    assert heard in said.content


def test_environment_variables_in_a_command_line_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HILLS_TOOL", "climb")
    (said,) = saying(model({"hills": f"{talking()} '${{HILLS_TOOL}}'"}), "climb")
    assert said.content == "climb of 1"


def test_what_a_server_says_beside_the_protocol_is_passed_over() -> None:
    (said,) = saying(model({"hills": talking("chatty")}), "chatty")
    assert said.content == "chatty of 1"


def test_an_invalid_result_is_an_error_of_the_call() -> None:
    odd, good = saying(model({"hills": talking("odd", "echo")}), "odd", "echo")
    assert odd.is_error
    assert "the server violated the protocol (" in odd.content
    assert good.content == "echo of 1"


@pytest.mark.parametrize(
    ("command", "seconds", "why"),
    [
        ("python -c 'raise SystemExit(\"no map\")'", 60, "cannot be used: Connection closed; the server wrote: no map"),
        ("python -c 'import time; time.sleep(60)'", 0.5, "cannot be used: the server did not answer within 0.5 s"),
        (talking("nameless"), 60, "cannot be used: the server violated the protocol (tools.0.name: Field required)"),
        (talking(*map(str, range(201))), 60, "cannot be used: the server lists its tools on more than 100 pages"),
        ("http://127.0.0.1:9/mcp", 60, "cannot be used: All connection attempts failed"),
    ],
)
def test_a_server_that_does_not_start_is_a_connection_error(command: str, seconds: float, why: str) -> None:
    lost = model({"echo": talking("echo"), "lost": command}, mcp_server_options={"lost": {"start_timeout": seconds}})
    with pytest.raises(PortError) as caught:
        saying(lost, "echo")
    assert caught.value.category is ErrorCategory.CONNECTION
    assert f"the MCP server 'lost' ({command}) {why}" in str(caught.value)


def processes() -> set[int]:
    """Return the live processes that this one has started."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc on this system")
@pytest.mark.parametrize("ending", ["ends", "fails", "is cancelled", "cannot start"])
def test_no_process_is_left_however_a_session_ends(ending: str) -> None:
    async def use(tools: dict[str, Tool]) -> None:
        assert len(processes() - before) == 2
        if ending == "fails":
            raise LookupError
        if ending == "is cancelled":
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_later(0.1, task.cancel)
            await call(tools, "sleep")

    before = processes()
    servers = {"one": talking("sleep"), "two": talking("echo")}
    if ending == "cannot start":
        servers["three"] = "http://127.0.0.1:9/mcp"

    async def session() -> set[int]:
        with suppress(LookupError, asyncio.CancelledError, PortError):
            async with MCPSource().open(model(servers), None) as tools:
                await use({tool.name: tool for tool in tools})
        return processes()  # while the event loop still runs: what ends with it would be gone anyway

    assert asyncio.run(session()) <= before
