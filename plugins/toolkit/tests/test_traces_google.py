"""Contents of Google's generateContent become messages."""

from __future__ import annotations

from typing import Any

import pytest

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import TraceFormatError, convert_recording, final_ai_message, measure_trace

RAN = ToolCall("call_1", "code_execution", {"language": "PYTHON", "code": "print(6*7)"})


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def called(name: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **more}}


def given(name: str, response: Any, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": response, **more}}


def test_server_side_code_is_a_call_with_its_result() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "print(6*7)"}}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}}
    assert convert_recording(
        [user({"text": "6*7?"}), model({"text": "I count."}, code, result, {"text": "It is 42."})]
    ) == [
        Message.user("6*7?"),
        Message.assistant("I count.", [RAN]),
        Message.tool("42\n", RAN),
        Message.assistant("It is 42."),
    ]


def test_code_that_failed_is_a_failed_call() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "print(6*7)"}}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_DEADLINE_EXCEEDED"}}
    trace = convert_recording([model(code, result)])
    assert trace[1] == Message.tool("OUTCOME_DEADLINE_EXCEEDED\n", RAN, is_error=True)
    assert measure_trace(trace)["suspect_failed_tools"] == ["code_execution"]


def test_results_without_ids_match_the_first_open_call() -> None:
    results = user(given("g", {"output": "1"}), given("f", {"output": "2"}), given("f", {"output": "3"}))
    trace = convert_recording([model(called("f"), called("g"), called("f")), results])
    assert [call.id for call in trace[0].tool_calls] == ["call_1", "call_2", "call_3"]
    assert [(message.content, message.tool_call_id) for message in trace[1:]] == [
        ("1", "call_2"),
        ("2", "call_1"),
        ("3", "call_3"),
    ]


def test_generated_ids_are_unique() -> None:
    trace = convert_recording([model(called("f"), called("f", id="call_1"))])
    assert [call.id for call in trace[0].tool_calls] == ["call_2", "call_1"]


@pytest.mark.parametrize(
    ("response", "text", "failed"),
    [
        ({"output": "17q21"}, "17q21", False),
        ({"result": {"place": "17q21"}}, '{"place": "17q21"}', False),
        ({"place": "17q21", "error": None}, '{"place": "17q21", "error": null}', False),
        ({"error": "no such gene"}, "no such gene", True),
        ({"error": "no such gene", "hint": "BRCA2"}, '{"error": "no such gene", "hint": "BRCA2"}', True),
        ({}, "{}", False),
        (None, "", False),
    ],
)
def test_results_of_functions(response: Any, text: str, failed: bool) -> None:
    (message,) = convert_recording([user(given("f", response, id="c"))])
    assert message == Message("tool", text, tool_call_id="c", tool_name="f", is_error=failed)


def test_results_and_text_in_one_content_keep_their_order() -> None:
    trace = convert_recording(
        [user({"text": "First."}, given("f", {"output": "x"}, id="c"), {"text": "Then."}, {"text": "Go."})]
    )
    assert [(message.role, message.content) for message in trace] == [
        ("user", "First."),
        ("tool", "x"),
        ("user", "Then.\nGo."),
    ]


def test_thoughts_are_separate_and_text_parts_are_joined() -> None:
    parts: list[dict[str, Any]] = [
        {"text": "Hmm.", "thought": True},
        {"text": "On "},
        {"text": "17q21.", "thoughtSignature": "s"},
    ]
    recording = [model(*parts)]
    assert convert_recording(recording) == [Message.assistant("On 17q21.", reasoning="Hmm.")]
    assert final_ai_message(recording) == "On 17q21."


def test_names_of_parts_may_be_in_python_spelling() -> None:
    recording = {
        "system_instruction": "Be brief.",
        "contents": [model({"function_call": {"name": "f", "args": None, "id": "c"}, "text": None})],
    }
    assert convert_recording(recording) == [
        Message.system("Be brief."),
        Message.assistant("", [ToolCall("c", "f", {})]),
    ]


def test_data_and_unknown_parts_are_kept_as_what_they_are() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0K" * 40}}
    assert [
        message.content for message in convert_recording([user(picture, {"hologram": "BRCA1"}), model(picture)])
    ] == [
        '[inlineData] {"mimeType": "image/png", "data": "(320 encoded characters)"}\n[hologram] {"value": "BRCA1"}',
        '[inlineData] {"mimeType": "image/png", "data": "(320 encoded characters)"}',
    ]


def test_contents_without_a_role_are_the_users() -> None:
    recording: list[dict[str, Any]] = [{"parts": [{"text": "x"}]}, {"role": "model"}]
    assert convert_recording(recording) == [Message.user("x"), Message.assistant("")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (user({"text": 5}), "entry 1: a text part must contain text, not int"),
        (user({"text": "x", "inlineData": {}}), "entry 1: a part must .* only one item.* both text and inlineData"),
        (model({"functionCall": {"args": {}}}), "entry 1: a functionCall has no name"),
        (model({"functionCall": {"name": "f", "args": [1]}}), "its args are not an object"),
        (model({"executableCode": "x"}), "entry 1: executableCode must be an object, not str"),
        (user({"functionResponse": {}}), "entry 1: a functionResponse has no name"),
        ({"role": "narrator", "parts": [{"text": "x"}]}, "entry 1: unknown role 'narrator'"),
        ({"role": "user", "parts": ["x"]}, "entry 1: a part must be an object, not str"),
    ],
)
def test_an_invalid_content_is_named_with_its_entry(content: dict[str, Any], problem: str) -> None:
    with pytest.raises(TraceFormatError, match=problem):
        convert_recording([content])
