"""Tool calls in the notations of model families, as servers without a parser for them pass them on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_toolkit.agents.written_calls import parse_tool_calls

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "line": {"type": "integer"},
        "tags": {"type": "array"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}


class ReadFile:
    name = "read_file"
    description = "Read a file."
    schema: Mapping[str, Any] = SCHEMA

    async def run(self, arguments: Mapping[str, Any]) -> str:
        return ""


TOOLS = {"read_file": ReadFile(), "now": ReadFile()}
DSML = "\uff5cDSML\uff5c"
DEEPSEEK = (
    "<\uff5ctool\u2581calls\u2581begin\uff5c>{}<\uff5ctool\u2581calls\u2581end\uff5c>"
    "<\uff5cend\u2581of\u2581sentence\uff5c>"
)
ONE = "<\uff5ctool\u2581call\u2581begin\uff5c>{}<\uff5ctool\u2581call\u2581end\uff5c>"
SEP = "<\uff5ctool\u2581sep\uff5c>"
JSON = '{"path": "007", "line": 3}'
FORMS = {
    "qwen3-coder": "<tool_call>\n<function=read_file>\n<parameter=path>\n007\n</parameter>\n"
    "<parameter=line>\n3\n</parameter>\n</function>\n</tool_call>",
    "bare": "<function=read_file><parameter=path>007</parameter><parameter=line>3</parameter></function>",
    "seed-oss": "<seed:tool_call>\n<function=read_file>\n<parameter=path>007</parameter>\n"
    "<parameter=line>3</parameter>\n</function>\n</seed:tool_call>",
    "llama 3.1": f"<function=read_file>{JSON}</function>",
    "minimax": '<minimax:tool_call>\n<invoke name="read_file">\n<parameter name="path">007</parameter>\n'
    '<parameter name="line">3</parameter>\n</invoke>\n</minimax:tool_call>',
    "deepseek 3.2": f'<{DSML}function_calls>\n<{DSML}invoke name="read_file">\n'
    f'<{DSML}parameter name="path" string="true">007</{DSML}parameter>\n'
    f'<{DSML}parameter name="line" string="false">3</{DSML}parameter>\n</{DSML}invoke>\n</{DSML}function_calls>',
    "glm": "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>007</arg_value>\n<arg_key>line</arg_key>\n"
    "<arg_value>3</arg_value>\n</tool_call>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>"
    f"{JSON}<|tool_call_end|><|tool_calls_section_end|>",
    "deepseek 3": DEEPSEEK.format(ONE.format(f"function{SEP}read_file\n```json\n{JSON}\n```")),
    "deepseek 3.1": DEEPSEEK.format(ONE.format(f"read_file{SEP}{JSON}")),
    "mistral": f"[TOOL_CALLS]read_file[ARGS]{JSON}</s>",
    "mistral with an id": f"[TOOL_CALLS]read_file[CALL_ID]abcDEFxyz[ARGS]{JSON}",
    "mistral before version 11": f'[TOOL_CALLS] [{{"name": "read_file", "arguments": {JSON}, "id": "abcDEFxyz"}}]</s>',
    "granite": f'<|tool_call|>[{{"name": "read_file", "arguments": {JSON}}}]<|end_of_text|>',
    "phi": f'<|tool_call|>[{{"name": "read_file", "arguments": {JSON}}}]<|/tool_call|>',
    "functools": f'functools[{{"name": "read_file", "arguments": {JSON}}}]',
    "llama 3 with a token": f'<|python_tag|>{{"name": "read_file", "parameters": {JSON}}}<|eom_id|>',
    "python": "[read_file(path='007', line=3)]",
    "llama 4": "<|python_start|>[read_file(path='007', line=3)]<|python_end|><|eot|>",
    "lfm": "<|tool_call_start|>[read_file(path='007', line=3)]<|tool_call_end|><|im_end|>",
}


def calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, dict(call.arguments)) for call in parse_tool_calls(text, TOOLS).calls]


@pytest.mark.parametrize("form", FORMS)
def test_a_call_in_the_form_of_a_family_is_read(form: str) -> None:
    assert calls(FORMS[form]) == [("read_file", {"path": "007", "line": 3})]
    assert parse_tool_calls(FORMS[form], TOOLS).text == ""


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("python", "llama 4", "lfm")])
def test_text_before_a_marked_call_stays_the_text(form: str) -> None:
    found = parse_tool_calls(f"I look.\n\n{FORMS[form]}", TOOLS)
    assert (found.text, len(found.calls)) == ("I look.", 1)


@pytest.mark.parametrize("form", ["qwen3-coder", "minimax", "glm", "kimi", "deepseek 3.1", "mistral with an id"])
def test_several_marked_calls_are_read_in_order(form: str) -> None:
    assert calls(FORMS[form].replace("007", "a") + "\n" + FORMS[form].replace("007", "b")) == [
        ("read_file", {"path": "a", "line": 3}),
        ("read_file", {"path": "b", "line": 3}),
    ]


def test_calls_without_arguments_are_read() -> None:
    assert calls("<tool_call>now</tool_call>") == [("now", {})]
    assert calls("<function=now>\n</function>") == [("now", {})]
    assert calls('<invoke name="now"></invoke>') == [("now", {})]
    assert calls("[now()]") == [("now", {})]


@pytest.mark.parametrize(
    "text",
    [
        FORMS["qwen3-coder"].replace("read_file", "launch"),
        FORMS["kimi"].replace("read_file", "launch"),
        f"Qwen writes\n```\n{FORMS['qwen3-coder']}\n```",
        f"Write {FORMS['qwen3-coder']} and wait.",
        f"Mistral writes {FORMS['mistral']} and waits.",
        "A call begins with <function=read_file> and ends.</function>",
        "The mark [TOOL_CALLS] comes before a call.",
        "<tool_call>read_file is what it calls</tool_call>",
        "[read_file(path)]",
        "[read_file('007')]",
        "[launch(path='007')]",
        "[read_file(path=open('x'))]",
        "[read_file(**{'path': 'x'})]",
        "[read_file(path={'a': 1, **{'b': 2}})]",
        "See [read_file(path='007')](docs).",
        "[" * 50_000 + "now(",
        f"Mistral writes `[TOOL_CALLS]read_file[ARGS]{JSON}`",
        f"Mistral writes [TOOL_CALLS]read_file[ARGS]{JSON} for a call.",
        'Llama writes `<|python_tag|>{"name": "read_file", "parameters": {...}}`.',
        f"Phi-4 writes {FORMS['functools']}",
        "A call begins with <function=read_file>",
        "A call begins with <function=read_file>, and parameters follow.",
        'It was `<invoke name="read_file">`',
    ],
)
def test_an_answer_about_calls_stays_an_answer(text: str) -> None:
    found = parse_tool_calls(text, TOOLS)
    assert (found.text, found.calls) == (text, ())


@pytest.mark.parametrize(
    "form", ["qwen3-coder", "seed-oss", "minimax", "deepseek 3.2", "glm", "kimi", "deepseek 3.1", "mistral"]
)
def test_a_marked_call_that_is_cut_off_has_unreadable_arguments(form: str) -> None:
    text = FORMS[form][: FORMS[form].index("007") + 2]
    (call,) = parse_tool_calls(text, TOOLS).calls
    assert (call.name, list(call.arguments)) == ("read_file", ["_unreadable"])


def test_parameters_have_the_types_of_their_schemas() -> None:
    text = FORMS["qwen3-coder"].replace("</function>", '<parameter=tags>\n[1, "a"]\n</parameter>\n</function>')
    text = text.replace(
        "</function>", "<parameter=note>\nnull\n</parameter>\n<parameter=free>\n1e5\n</parameter></function>"
    )
    assert calls(text) == [
        ("read_file", {"path": "007", "line": 3, "tags": [1, "a"], "note": "null", "free": "1e5"}),
    ]


def test_integers_above_64_bits_stay_exact_in_arguments() -> None:
    large = 2**64 + 1
    written = json.dumps({"name": "read_file", "arguments": {"line": large}})
    assert calls(written) == [("read_file", {"line": large})]
    for form in FORMS.values():
        assert calls(form.replace("3", str(large))) == [("read_file", {"path": "007", "line": large})]


@given(st.text(max_size=60).filter(lambda text: "<" not in text and text == text.strip("\n")))
def test_a_text_parameter_comes_back_as_written(value: str) -> None:
    text = f"<function=read_file>\n<parameter=path>\n{value}\n</parameter>\n</function>"
    assert calls(text) == [("read_file", {"path": value})]


@pytest.mark.parametrize(
    "piece",
    [
        "<function=now>",
        "<tool_call>now",
        "[TOOL_CALLS]now[ARGS]",
        '<invoke name="now">',
        "<tool_call>\n",
        "[now(",
        "</s>",
    ],
)
def test_a_long_text_of_marks_is_read_in_one_go(piece: str) -> None:
    parse_tool_calls(piece * 60_000, TOOLS)
