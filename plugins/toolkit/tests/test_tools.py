"""Tools of agents: what a workspace offers, how far it reaches, and how a failed call becomes part of the trace."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import AgentOptions, Message, ToolCall
from karenina_toolkit.agents import workspace_tools as room
from karenina_toolkit.agents.tool_sources import ToolError
from karenina_toolkit.agents.tools import LONGEST_RESULT, collect_tools, run_tool


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "data").mkdir(parents=True)
    (folder / "note.txt").write_text("The code is 4711.\nNothing else.\n")
    (folder / "data/table.csv").write_text("gene,place\nBRCA1,17q21\n")
    (folder / "data/blob.bin").write_bytes(b"\x00\x01")
    (tmp_path / "secret.txt").write_text("SECRET")
    (folder / "out").symlink_to(tmp_path)
    (folder / "secret").symlink_to("../secret.txt")
    (folder / "circle").symlink_to("circle")
    return folder


def call(workspace: Path, name: str, **arguments: Any) -> Message:
    return asyncio.run(run_tool(ToolCall("c1", name, arguments), collect_tools(AgentOptions(workspace=workspace))))


def said(workspace: Path, name: str, **arguments: Any) -> str:
    message = call(workspace, name, **arguments)
    assert not message.is_error, message.content
    return message.content


def test_without_a_workspace_there_are_no_tools() -> None:
    assert collect_tools(AgentOptions()) == {}


class Echo:
    """A tool that some source brings."""

    description = "Says it again."
    schema: Mapping[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}

    def __init__(self, name: str, origin: str) -> None:
        self.name = name
        self.origin = origin

    async def call(self, arguments: Mapping[str, Any]) -> str:
        return str(arguments["text"])


def test_further_tools_stand_beside_those_of_the_workspace(workspace: Path) -> None:
    tools = collect_tools(AgentOptions(workspace=workspace, tools=(Echo("echo", "hills"),)))
    assert list(tools)[-2:] == ["write_file", "echo"]
    assert asyncio.run(run_tool(ToolCall("c1", "echo", {"text": "hey"}), tools)).content == "hey"


@pytest.mark.parametrize(
    ("tools", "both"),
    [
        ((Echo("read_file", "server 'files'"),), "the workspace and one from server 'files'"),
        ((Echo("look", "server 'a'"), Echo("look", "server 'b'")), "server 'a' and one from server 'b'"),
    ],
)
def test_two_tools_with_one_name_are_an_error(workspace: Path, tools: tuple[Echo, ...], both: str) -> None:
    with pytest.raises(ValueError, match=f"two tools are named '{tools[0].name}', one from {both}"):
        collect_tools(AgentOptions(workspace=workspace, tools=tools))


def test_a_workspace_that_is_not_a_folder_is_an_error(workspace: Path) -> None:
    with pytest.raises(ValueError, match="is not a folder"):
        collect_tools(AgentOptions(workspace=workspace / "note.txt"))


def test_files_are_listed_recursively_without_following_links(workspace: Path) -> None:
    (workspace / "empty").mkdir()
    assert said(workspace, "list_files").splitlines() == [
        "circle (link)",
        "data/blob.bin (2 bytes)",
        "data/table.csv (23 bytes)",
        "empty/",
        "note.txt (32 bytes)",
        "out (link)",
        "secret (link)",
    ]
    assert said(workspace, "list_files", path="empty") == "(the folder is empty)"
    assert said(workspace, "list_files", path="note.txt") == "note.txt (32 bytes)"


def test_a_long_listing_is_cut_and_says_so(workspace: Path) -> None:
    for number in range(room.MOST_ENTRIES + 5):
        (workspace / f"data/{number}.txt").touch()
    lines = said(workspace, "list_files", path="data").splitlines()
    assert len(lines) == room.MOST_ENTRIES + 1
    assert "more than" in lines[-1]


def test_a_file_is_read_to_the_letter(workspace: Path) -> None:
    (workspace / "odd.txt").write_bytes("a\r\nb\u2028c\n".encode())
    assert said(workspace, "read_file", path="odd.txt") == "a\r\nb\u2028c\n"
    assert said(workspace, "read_file", path="note.txt", start_line=2) == "Nothing else.\n"
    assert said(workspace, "read_file", path="note.txt", start_line=9) == "(the file has 2 lines)"


def test_a_long_file_can_be_read_in_parts(workspace: Path) -> None:
    lines = [f"line {number} " + "x" * 90 + "\n" for number in range(2000)]
    (workspace / "long.txt").write_text("".join(lines))
    parts, start = [], 1
    while True:
        text, _, more = said(workspace, "read_file", path="long.txt", start_line=start).partition("\n[not all is shown")
        parts.append(text)
        if not more:
            break
        start = int(more.split("start_line=")[1].rstrip("]"))
    assert len(parts) > 2
    assert "".join(parts) == "".join(lines)


def test_a_line_that_is_too_long_is_cut_off(workspace: Path) -> None:
    (workspace / "wide.txt").write_text("x" * (3 * room.MOST_CHARACTERS) + "\nend\n")
    text = said(workspace, "read_file", path="wide.txt")
    assert text.startswith("x" * room.MOST_CHARACTERS + "\n[line 1 is longer")
    assert said(workspace, "read_file", path="wide.txt", start_line=2) == "end\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"pattern": r"\d{4}"}, "note.txt:1: The code is 4711."),
        ({"pattern": "BRCA1", "path": "data"}, "data/table.csv:2: BRCA1,17q21"),
        ({"pattern": "e", "glob": "*.csv"}, "data/table.csv:1: gene,place"),
        ({"pattern": "SECRET"}, "no match"),
        ({"pattern": "4711", "path": "note.txt"}, "note.txt:1: The code is 4711."),
    ],
)
def test_files_are_searched_line_by_line(workspace: Path, arguments: dict[str, str], expected: str) -> None:
    assert said(workspace, "search_files", **arguments).splitlines()[0] == expected


def test_a_search_says_which_files_it_left_out(workspace: Path) -> None:
    assert "[not searched, because not text or too large: 1 file]" in said(workspace, "search_files", pattern="x")


def test_lines_have_the_same_numbers_in_all_tools(workspace: Path) -> None:
    (workspace / "pages.txt").write_text("one\ftwo\n\u2028three\r\nend\n", newline="")

    assert said(workspace, "search_files", pattern="three$", glob="*.txt") == "pages.txt:2: three"
    assert said(workspace, "search_files", pattern="^end", glob="*.txt") == "pages.txt:3: end"
    assert said(workspace, "read_file", path="pages.txt", start_line=3) == "end\n"
    assert said(workspace, "read_file", path="pages.txt", start_line=9) == "(the file has 3 lines)"


def test_a_search_finds_what_stands_between_carriage_returns(workspace: Path) -> None:
    (workspace / "log.txt").write_text("begin\n10%\r20%\rdone\r\nend\n", newline="")

    assert said(workspace, "search_files", pattern="^20%$", glob="*.txt") == "log.txt:2: 20%"
    assert said(workspace, "search_files", pattern="e$", glob="*.txt") == "log.txt:2: done"


@pytest.mark.parametrize("declared", [True, {"$ref": "#/$defs/choices/anyOf/1"}, {"$ref": "#/$defs/none"}])
def test_a_schema_may_be_true_or_refer_to_a_list(declared: Any) -> None:
    class Echo:
        name = "echo"
        description = "Return the text."
        schema = MappingProxyType(
            {
                "type": "object",
                "properties": {"text": declared},
                "$defs": {"choices": {"anyOf": [{"type": "integer"}, {"type": "string"}]}},
            }
        )

        async def call(self, arguments: Mapping[str, Any]) -> str:
            return str(arguments["text"])

    message = asyncio.run(run_tool(ToolCall("1", "echo", {"text": "x"}), {"echo": Echo()}))
    assert (message.content, message.is_error) == ("x", False)


def test_many_matches_are_cut_and_say_so(workspace: Path) -> None:
    (workspace / "many.txt").write_text("hit\n" * 500)
    lines = said(workspace, "search_files", pattern="hit").splitlines()
    assert len(lines) == room.MOST_MATCHES + 1


@pytest.mark.parametrize("path", ["new.txt", "a/b/new.txt", "note.txt"])
def test_a_file_is_written_with_its_folders(workspace: Path, path: str) -> None:
    said(workspace, "write_file", path=path, content="a\nb \u00e9\n")
    assert (workspace / path).read_text("utf-8") == "a\nb \u00e9\n"


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("read_file", {"path": "absent.txt"}, "there is no 'absent.txt'"),
        ("read_file", {"path": "data"}, "is not a file"),
        ("read_file", {"path": "data/blob.bin"}, "not a text file (2 bytes)"),
        ("read_file", {"path": None}, "path"),
        ("read_file", {"path": 5}, "path"),
        ("read_file", {"path": "circle"}, "read_file failed"),
        ("search_files", {"pattern": "("}, "cannot be used"),
        ("search_files", {"pattern": ""}, "empty pattern"),
        ("write_file", {"path": "data", "content": "x"}, "is not a file"),
        ("write_file", {"path": "note.txt/x", "content": "x"}, "write_file failed"),
        ("write_file", {"path": "x", "content": "x" * (room.MOST_WRITTEN + 1)}, "too many"),
        ("remove_file", {"path": "x"}, "there is no tool 'remove_file'"),
    ],
)
def test_a_call_that_cannot_be_carried_out_says_why(
    workspace: Path, name: str, arguments: dict[str, Any], told: str
) -> None:
    message = call(workspace, name, **arguments)
    assert (message.role, message.is_error, message.tool_call_id) == ("tool", True, "c1")
    assert told in message.content


OUTSIDE = ["../secret.txt", "data/../../secret.txt", "/etc/passwd", "secret", "out/secret.txt", "out", "..", "a\0b"]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("name", ["read_file", "list_files", "search_files", "write_file"])
def test_no_tool_reaches_outside_the_workspace(workspace: Path, name: str, path: str) -> None:
    more = {"write_file": {"content": "x"}, "search_files": {"pattern": "SECRET"}}.get(name, {})
    message = call(workspace, name, path=path, **more)
    assert message.is_error
    assert "refused" in message.content
    assert (workspace.parent / "secret.txt").read_text() == "SECRET"
    assert sorted(one.name for one in workspace.parent.iterdir()) == ["secret.txt", "workspace"]


@given(st.lists(st.sampled_from(["..", ".", "/", "out", "secret", "data", "note.txt", "~", "x"]), max_size=5))
def test_no_path_leads_to_the_secret(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    base = tmp_path_factory.mktemp("law")
    (base / "workspace/data").mkdir(parents=True)
    (base / "secret.txt").write_text("SECRET")
    (base / "workspace/out").symlink_to("..")
    (base / "workspace/secret").symlink_to("../secret.txt")
    for path in ("/".join(parts), "/".join([*parts, "secret.txt"])):
        assert "SECRET" not in call(base / "workspace", "read_file", path=path).content


def test_a_pipe_in_the_workspace_is_not_waited_for(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    assert call(workspace, "read_file", path="pipe").is_error
    assert "no match" in said(workspace, "search_files", pattern="nowhere to be found")


class Own:
    """A tool as a plugin would bring it."""

    name = "own"
    description = "Does something."
    schema: Mapping[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}

    async def call(self, arguments: Mapping[str, Any]) -> str:
        if "n" not in arguments:
            raise RuntimeError("the wire is cut")
        return "x" * arguments["n"]


def test_a_tool_that_breaks_is_an_entry_of_the_trace() -> None:
    message = asyncio.run(run_tool(ToolCall("c", "own", {}), {"own": Own()}))
    assert (message.is_error, message.content) == (True, "own failed: RuntimeError: the wire is cut")


def test_a_result_without_end_is_cut_and_says_so() -> None:
    message = asyncio.run(run_tool(ToolCall("c", "own", {"n": LONGEST_RESULT + 1}), {"own": Own()}))
    assert not message.is_error
    assert message.content.endswith(f"[cut off: {LONGEST_RESULT} of {LONGEST_RESULT + 1} characters are shown]")


@pytest.mark.parametrize("kind", [ToolError, RuntimeError])
def test_an_error_without_end_is_cut_and_says_so(kind: type[Exception]) -> None:
    class Failing(Own):
        async def call(self, arguments: Mapping[str, Any]) -> str:
            raise kind("x" * 3 * LONGEST_RESULT)

    message = asyncio.run(run_tool(ToolCall("c", "own", {"n": 1}), {"own": Failing()}))
    assert message.is_error
    assert len(message.content) < LONGEST_RESULT + 100
    assert message.content.endswith(" characters are shown]")


NULLABLE: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "word": {"type": "string"},
        "hint": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "size": {"type": ["integer", "null"]},
        "kind": {"enum": ["a", None]},
        "tone": {"enum": ["low"]},
        "note": {"$ref": "#/$defs/note"},
        "rest": {},
    },
    "required": ["hint"],
    "$defs": {"note": {"oneOf": [{"type": "null"}, {"type": "object", "properties": {}}]}},
}


def test_null_is_passed_on_only_if_the_schema_allows_it() -> None:
    class Heard(Own):
        schema = NULLABLE

        async def call(self, arguments: Mapping[str, Any]) -> str:
            return " ".join(arguments)

    written = dict.fromkeys([*NULLABLE["properties"], "stranger"])
    message = asyncio.run(run_tool(ToolCall("c", "own", written), {"own": Heard()}))
    assert (message.is_error, message.content) == (False, "hint size kind note rest")
