"""Calls that small models wrote as text, and answers that only look like one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import ToolCall
from karenina_toolkit.agents.written_calls import parse_tool_calls

TOOLS = ("get_current_time", "list_files", "read_file", "search_files")
NOTE: dict[str, Any] = {"path": "note.txt", "start_line": 1}

# What Qwen2.5-Coder 0.5B and 1.5B really wrote when they were offered these tools, greedily.
RECORDED = [
    (
        '{"name": "read_file", "arguments": {"path": "data/not.txt", "start_line": 1}}',
        [("read_file", {"path": "data/not.txt", "start_line": 1})],
    ),
    (
        '```json\n{\n  "name": "list_files",\n  "arguments": {\n    "path": "data"\n  }\n}\n```',
        [("list_files", {"path": "data"})],
    ),
    (
        '{"name": "get_current_time", "arguments": {"timezone": "Europe/Berlin"}}\n',
        [("get_current_time", {"timezone": "Europe/Berlin"})],
    ),
    (
        '```json\n{\n  "name": "search_files",\n  "arguments": {\n    "pattern": "code",\n    "path": "",\n'
        '    "glob": ""\n  }\n}\n```',
        [("search_files", {"pattern": "code", "path": "", "glob": ""})],
    ),
    (
        '{"name": "list_files", "arguments": {"path": "data"}}\n'
        '{"name": "read_file", "arguments": {"path": "note.txt", "start_line": 1}}',
        [("list_files", {"path": "data"}), ("read_file", NOTE)],
    ),
    ('{{"name": "read_file", "arguments": {"path": "note.txt", "start_line": 1}}', [("read_file", NOTE)]),
    (
        '<tools>\n{"name": "list_files", "arguments": {"path": "data"}}\n</tools>',
        [("list_files", {"path": "data"})],
    ),
]
LOOKING = (
    'To answer this question, I need to look at the "note.txt" file in the workspace. Here\'s how I can do it:\n\n'
    '1. Call the `read_file` function with the path "note.txt".\n2. The function will return the content of the '
    '"note.txt" file.\n\nHere\'s the JSON response:'
)
CALL = '{"name": "read_file", "arguments": {"path": "note.txt"}}'
READ = [("read_file", {"path": "note.txt"})]


def calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, dict(call.arguments)) for call in parse_tool_calls(text, TOOLS).calls]


@pytest.mark.parametrize(("text", "wanted"), RECORDED)
def test_what_real_models_wrote_is_read(text: str, wanted: list[tuple[str, dict[str, Any]]]) -> None:
    assert calls(text) == wanted
    assert parse_tool_calls(text, TOOLS).text == ""


def test_prose_before_a_call_stays_the_text_of_the_message() -> None:
    found = parse_tool_calls(f"{LOOKING}\n\n```json\n{CALL}\n```", TOOLS)
    assert (found.text, found.calls) == (LOOKING, (ToolCall("", "read_file", {"path": "note.txt"}),))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"<tool_call>\n{CALL}\n</tool_call>", READ),
        (f"I look.\n<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>", READ * 2),
        (f"<tool_call>{CALL}", READ),
        (f"I look: <tool_call>{CALL}</tool_call>\nNow I wait.", READ),
        (f"```\n<tool_call>\n{CALL}\n</tool_call>\n```", READ),
        (f'I look for "4711"<tool_call>{CALL}</tool_call>', READ),
        (f"I read `note.txt`. <tool_call>{CALL}</tool_call>", READ),
        (f"<function_call>{CALL}</function_call>", READ),
        (f"```tool_call\n{CALL}\n```", READ),
        (f"```\n{CALL}\n{CALL}\n```\n", READ * 2),
        (f"[{CALL}, {CALL}]", READ * 2),
        (f"I look:\n{CALL}", READ),
        ('{"name": "read_file", "parameters": {"path": "note.txt"}}', READ),
        ('{"name": "read_file", "arguments": "{\\"path\\": \\"note.txt\\"}"}', READ),
        (f'{{"type": "function", "function": {CALL}}}', READ),
        ('{"name": "list_files", "arguments": {}}', [("list_files", {})]),
        ('{"arguments": {"path": "note.txt"}, "name": "read_file", "id": "call_7"}', READ),
    ],
)
def test_other_ways_to_write_a_call(text: str, wanted: list[tuple[str, dict[str, Any]]]) -> None:
    assert calls(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        # really written, when no tool was meant
        '```json\n{\n  "name": "John Doe",\n  "arguments": {\n    "name": "John",\n    "age": 30\n  }\n}\n```',
        '```json\n{\n  "name": "John Doe",\n  "age": 30\n}\n```',
        '```json\n{\n  "name": "add",\n  "arguments": {\n    "a": 2,\n    "b": 2\n  }\n}\n```',
        "Note.txt is a text file in the workspace.",
        # answers that hold JSON
        "",
        "4711",
        '{"code": 4711}',
        '{"name": "read_file"}',
        '{"name": "read_file", "age": 30}',
        '{"name": "read_file", "arguments": {"path": "note.txt"}, "result": "4711"}',
        '{"name": "read_file", "arguments": 4711}',
        '{"name": "read_file", "arguments": "note.txt"}',
        '{"name": ["read_file"], "arguments": {}}',
        '{"name": "read_file", "arguments": {}, "parameters": {}}',
        f'{{"steps": [{CALL}]}}',
        f'{{"steps": [\n{CALL}\n]}}',
        f"[{CALL}, 4711]",
        f'{CALL}\n{{"name": "launch_rocket", "arguments": {{}}}}',
        f'{CALL}\n{{"name": "launch_rocket", "arguments": {{}}}}\n{CALL}',
        f"I called {CALL}",
        f"I called\n{CALL}\nand it says that the code is 4711.",
        f"I called\n```json\n{CALL}\n```\nand it says that the code is 4711.",
        f"```python\nprint({CALL})\n```",
        '<tool_call>{"name": "launch_rocket", "arguments": {}}</tool_call>',
        '{"name": "launch_rocket", "arguments": {"to": "the mo',
        "[" * 100_000,
        f"Qwen writes `<tool_call>{CALL}</tool_call>`.",
        f"Qwen writes \u201c<tool_call>{CALL}</tool_call>\u201d.",
        f"Qwen writes <tool_call>{CALL}</tool_call> for this.",
        f"Qwen writes\n```\n<tool_call>\n{CALL}\n</tool_call>\n```\nand waits.",
    ],
)
def test_an_answer_that_holds_json_stays_an_answer(text: str) -> None:
    found = parse_tool_calls(text, TOOLS)
    assert (found.text, found.calls) == (text, ())


@pytest.mark.parametrize(
    ("text", "wanted", "left"),
    [
        ('{"name": "read_file", "arguments": {"path": "no', [("read_file", '{"path": "no')], ""),
        ('```json\n{\n  "name": "read_file",\n  "arguments": {"path": note.txt}\n}\n```', [], None),
        ('<tool_call>{"name": "read_file", "arguments": {"path": note}}</tool_call>', [], None),
        (f'{CALL}\n{{"name": "read_file", "arguments": {{"pa', [("read_file", None), ("read_file", '{"pa')], ""),
        (f'{CALL}\n{{"name": "read_', [("read_file", None)], '{"name": "read_'),
    ],
)
def test_an_incomplete_call_has_unreadable_arguments(
    text: str, wanted: list[tuple[str, str | None]], left: str | None
) -> None:
    found = parse_tool_calls(text, TOOLS)
    if left is None:
        assert [(call.name, list(call.arguments)) for call in found.calls] == [("read_file", ["_unreadable"])]
    else:
        assert [(call.name, call.arguments.get("_unreadable")) for call in found.calls] == wanted
        assert found.text == left


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=4,
)


@given(
    st.lists(
        st.tuples(st.sampled_from(TOOLS), st.dictionaries(st.text(max_size=5), values, max_size=3)),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["{}", "```json\n{}\n```", "<tool_call>{}</tool_call>", "I look.\n\n```\n{}\n```"]),
    st.sampled_from([None, 2]),
)
def test_whatever_the_arguments_they_come_back(
    wanted: list[tuple[str, dict[str, Any]]], around: str, indent: int | None
) -> None:
    objects = [json.dumps({"name": name, "arguments": given}, indent=indent) for name, given in wanted]
    assert calls(around.replace("{}", "\n".join(objects))) == wanted


@given(st.text())
def test_text_without_a_known_name_is_never_a_call(text: str) -> None:
    assert parse_tool_calls(text, ()).calls == ()
    assert parse_tool_calls(text, ()).text == text
