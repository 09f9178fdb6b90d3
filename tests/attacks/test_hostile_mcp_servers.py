"""A reply of an MCP server fails its call or its item, never the run; and the server sees nothing but its calls.

The server is one that the user named: it may be broken, or have been taken over since.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import stat
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from mcp_parts import ToolCaller, call
from processes import ends
from servers import recording_server

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import ErrorCategory, Message, PortError, Tool, ToolCall
from karenina_mcp import MCPSource
from karenina_toolkit.agents.tools import LONGEST_RESULT, run_tool

if TYPE_CHECKING:
    from conftest import Environment

T = TypeVar("T")

SERVER = Path(__file__).with_name("hostile_mcp_server.py")
SECRET = "sk-SECRET-OF-THE-USER"
QUESTIONS = """karenina: 1
name: tools
questions:
  - {id: one, question: Act., answer: {word: {description: What the tool said, ground_truth: fine}}}
"""


def command(attack: str, notes: Path) -> str:
    return shlex.join([sys.executable, str(SERVER), attack, str(notes)])


def model(attack: str, notes: Path, **options: Any) -> ModelConfig:
    chosen = {"start_timeout": 100, "call_timeout": 100, **options}
    return ModelConfig(
        id="m",
        interface="any",
        model_name="any",
        mcp_urls_dict={"hostile": command(attack, notes)},
        mcp_server_options={"hostile": chosen},
    )


def use_server(model: ModelConfig, use: Callable[[dict[str, Tool]], Awaitable[T]]) -> tuple[T, float]:
    """Return the result of `use` with the tools, and the longest work of the event loop without a pause."""

    async def session() -> tuple[T, float]:
        longest, stop = 0.0, asyncio.Event()

        async def watch() -> None:
            nonlocal longest
            while not stop.is_set():
                before = time.thread_time()  # other processes do not count
                await asyncio.sleep(0.01)
                longest = max(longest, time.thread_time() - before)

        watching = asyncio.create_task(watch())
        async with MCPSource().open(model, None) as tools:
            found = await use({tool.name: tool for tool in tools})
        stop.set()
        await watching
        return found, longest

    return asyncio.run(session())


def run_act(attack: str, notes: Path, arguments: dict[str, Any] | None = None, **options: Any) -> tuple[Message, float]:
    """Return the message of one call of the server's tool, and the longest pause of the event loop."""

    async def act(tools: dict[str, Tool]) -> Message:
        return await run_tool(ToolCall("1", "act", arguments or {"n": 1}), tools)

    return use_server(model(attack, notes, **options), act)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Return the notes of the server about its environment and calls."""
    return tmp_path / "notes.txt"


def largest_deleted_file() -> int:
    """Return the bytes of the largest file that this process holds open and that has no name, on Linux."""
    sizes = [0]
    for handle in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):
            found = handle.stat()
            sizes.append(found.st_size if stat.S_ISREG(found.st_mode) and found.st_nlink == 0 else 0)
    return max(sizes)


@pytest.mark.parametrize(
    ("attack", "why"),
    [
        ("endless line", "more than 64000000 bytes"),
        ("endless notifications", "more than 10000 messages"),
        ("endless requests", "more than 10000 messages"),
        ("endless garbage", "more than 10000 messages"),
    ],
)
def test_a_server_that_sends_without_end_costs_the_item(notes: Path, attack: str, why: str) -> None:
    """Attack: a reply without end. The server is disconnected, and the new one that gets the call sends the same."""

    async def act(tools: dict[str, Tool]) -> PortError:
        with pytest.raises(PortError) as caught:
            await run_tool(ToolCall("1", "act", {"n": 1}), tools)
        return caught.value

    error, longest = use_server(model(attack, notes, call_timeout=60), act)
    assert error.category is ErrorCategory.CONNECTION
    assert why in str(error)
    assert longest < 5, "the event loop stood still"


@pytest.mark.parametrize(
    ("attack", "why"),
    [
        ("values", "did not answer within 3 s"),
        ("depth", "did not answer within 3 s"),
        ("silent call", "did not answer within 3 s"),
    ],
)
def test_what_a_server_sends_to_a_call_costs_the_call(notes: Path, attack: str, why: str) -> None:
    """Attack: a reply of too many values, nested too deeply, or none."""
    said, longest = run_act(attack, notes, call_timeout=3)
    assert said.is_error
    assert why in said.content
    assert longest < 5, "the event loop stood still"


def test_a_result_with_half_a_surrogate_pair_is_read(notes: Path) -> None:
    """Attack: text that is not Unicode."""
    said, _ = run_act("surrogates", notes, call_timeout=60)
    assert not said.is_error
    said.content.encode()


def test_a_result_of_50_megabytes_is_cut_off(notes: Path) -> None:
    """Attack: a result that no model can read, which would be kept in the trace and sent in each later turn."""
    said, _ = run_act("long result", notes)
    assert LONGEST_RESULT < len(said.content) < LONGEST_RESULT + 100


def test_stderr_without_end_fills_no_disk_and_stops_no_call(notes: Path) -> None:
    """Attack: stderr without end, which went to a file in the folder for temporary files."""

    async def act(tools: dict[str, Tool]) -> tuple[Message, int]:
        said = await run_tool(ToolCall("1", "act", {"n": 1}), tools)
        await asyncio.sleep(1)
        return said, largest_deleted_file()

    (said, size), longest = use_server(model("endless stderr", notes), act)
    assert said.content == "fine"
    assert size < 10_000_000
    assert longest < 5


def test_a_server_that_reads_nothing_costs_the_call(notes: Path) -> None:
    """Attack: a server that does not read its input, so that no request can be sent whole."""
    said, _ = run_act("deaf", notes, {"n": 1, "more": "x" * 1_000_000}, call_timeout=2)
    assert "did not answer within 2 s" in said.content


def test_a_schema_of_a_tool_cannot_hold_the_run_up(notes: Path) -> None:
    """Attack: a schema of 30 short lines that takes 2^30 comparisons."""
    said, longest = run_act("schema bomb", notes)
    assert said.is_error
    assert "nested choices and references" in said.content
    assert longest < 100  # 2^30 comparisons take hours


@pytest.mark.parametrize(
    ("attack", "why"),
    [
        ("many tools", "tools"),
        ("long description", "characters"),
        ("long name", "characters"),
        ("odd schema", "the server violated the protocol"),
        ("silent", "did not answer within 3 s"),
    ],
)
def test_a_server_with_an_impossible_list_is_an_error(notes: Path, attack: str, why: str) -> None:
    """Attack: a list of tools that no model can be sent, or none at all."""
    with pytest.raises(PortError, match=why) as caught:
        run_act(attack, notes, start_timeout=3 if attack == "silent" else 60)
    assert len(str(caught.value)) < 2000
    assert caught.value.category in (ErrorCategory.PERMANENT, ErrorCategory.CONNECTION)


def test_pages_of_tools_without_end_are_refused(notes: Path) -> None:
    """Attack: each page of the list names another one."""

    async def names(tools: dict[str, Tool]) -> int:
        return len(tools)

    with pytest.raises(PortError, match="more than 100 pages"):
        use_server(model("endless pages", notes), names)


def test_a_server_gets_to_know_its_calls_and_nothing_else(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: requests for the client's folders, for a completion by its model, and for input of its user."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MY_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, SECRET)
    said, _ = run_act("asks", notes)
    known = notes.read_text()
    heard = [json.loads(line) for line in known.splitlines()[1:]]
    answers = {one["id"]: one for one in heard if one.get("id") in ("r", "s", "e")}

    assert said.content == "fine"
    assert SECRET not in known
    assert all("error" in answers[id] for id in ("r", "s"))
    assert "error" in answers["e"] or answers["e"]["result"]["action"] == "decline"
    sent = "\n".join(known.splitlines()[1:])
    assert str(Path.home()) not in sent
    assert str(Path.cwd()) not in sent


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc on this system")
@pytest.mark.parametrize("attack", ["stays", "leaves a child"])
def test_nothing_that_a_server_started_is_left(notes: Path, attack: str) -> None:
    """Attack: ignore the end of the input and SIGTERM; or end politely, and leave a child in the process group."""
    run_act(attack, notes)
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    pids = [one["pid"] for one in lines if "pid" in one]
    assert len(pids) == 2
    assert [pid for pid in pids if not ends(pid)] == []


@pytest.mark.parametrize("attack", ["endless line", "schema bomb", "many tools", "silent"])
def test_a_run_with_a_hostile_server_ends_with_its_results(site: Environment, notes: Path, attack: str) -> None:
    """Attack: the same with the installed command, where the answering model has the server."""
    options = {"hostile": {"start_timeout": 3 if attack == "silent" else 60, "call_timeout": 30}}
    caller = ToolCaller([call("act", n=1)], r"(.+)")
    with recording_server(caller) as server:
        one = {"interface": "openai", "model_name": "m", "endpoint_base_url": server.url}
        answering = {
            "id": "a",
            **one,
            "mcp_urls_dict": {"hostile": command(attack, notes)},
            "mcp_server_options": options,
        }
        config = site.write(
            "own.json", json.dumps({"answering_models": [answering], "parsing_models": [{"id": "j", **one}]})
        )
        file = site.write("tools.yaml", QUESTIONS)
        options = ["--set", "retry_connection=0", "--json"]
        done = site.karenina("run", file, "-c", config, *options, script=attack == "endless line")
    assert done.returncode in (0, 4), done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["question_id"] == "one"
