"""Spans whose attributes contain messages as OpenInference (Phoenix) and OpenLLMetry (Traceloop) write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import TraceFormatError, convert_recording, find_end, is_conversation

JSON = dict[str, Any]
LOOK = ToolCall("c1", "look_up", {"gene": "BRCA1"})
READ = [
    Message.system("Be brief."),
    Message.user("Where is BRCA1?"),
    Message.assistant("", [LOOK]),
    Message.tool("17q21", LOOK),
    Message.assistant("On 17q21."),
]
FUNCTION = {
    "tool_call.id": "c1",
    "tool_call.function.name": "look_up",
    "tool_call.function.arguments": '{"gene": "BRCA1"}',
}
ASKED = [
    {"message.role": "system", "message.content": "Be brief."},
    {"message.role": "user", "message.content": "Where is BRCA1?"},
    {"message.role": "assistant", "message.content": None, "message.tool_calls": [FUNCTION]},
    {"message.role": "tool", "message.content": "17q21", "message.tool_call_id": "c1"},
]
SAID = [{"message.role": "assistant", "message.content": "On 17q21."}]


def flat(prefix: str, messages: list[JSON]) -> JSON:
    """Attributes with one name for each value."""
    found: JSON = {}
    for place, message in enumerate(messages):
        for key, value in message.items():
            if isinstance(value, list):
                found |= flat(f"{prefix}.{place}.{key}", value)
            elif value is not None:
                found[f"{prefix}.{place}.{key}"] = value
    return found


INFERENCE = {"openinference.span.kind": "LLM", "llm.model_name": "gpt-5", "llm.token_count.prompt": 229}
FLAT = {**INFERENCE, **flat("llm.input_messages", ASKED), **flat("llm.output_messages", SAID)}
LISTED = {**INFERENCE, "llm.input_messages": ASKED, "llm.output_messages": SAID}
ROW = {"name": "ChatCompletion", "span_kind": "LLM", **{f"attributes.{key}": value for key, value in LISTED.items()}}
NESTED = {
    "llm": {
        "input_messages": [
            {"message": {"role": "system", "content": "Be brief."}},
            {
                "message": {
                    "role": "user",
                    "contents": [{"message_content": {"type": "text", "text": "Where is BRCA1?"}}],
                }
            },
            {
                "message": {
                    "role": "assistant",
                    "tool_calls": [
                        {"tool_call": {"id": "c1", "function": {"name": "look_up", "arguments": '{"gene": "BRCA1"}'}}}
                    ],
                }
            },
            {"message": {"role": "tool", "content": "17q21", "tool_call_id": "c1"}},
        ],
        "output_messages": [{"message": {"role": "assistant", "content": "On 17q21."}}],
    }
}
CALLS = [{"id": "c1", "name": "look_up", "arguments": '{"gene": "BRCA1"}'}]
PROMPTS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": json.dumps([{"type": "text", "text": "Where is BRCA1?"}])},
    {"role": "assistant", "finish_reason": "tool_calls", "tool_calls": CALLS},
    {"role": "tool", "content": "17q21", "tool_call_id": "c1"},
]
COMPLETION = [{"role": "assistant", "content": "On 17q21.", "finish_reason": "stop"}]
LLMETRY = {"gen_ai.system": "OpenAI", **flat("gen_ai.prompt", PROMPTS), **flat("gen_ai.completion", COMPLETION)}
AS_JSON = {**LLMETRY, **flat("gen_ai.prompt", [*PROMPTS[:2], {**PROMPTS[2], "tool_calls": json.dumps(CALLS)}])}
del AS_JSON["gen_ai.prompt.2.tool_calls.0.id"]
del AS_JSON["gen_ai.prompt.2.tool_calls.0.name"]
del AS_JSON["gen_ai.prompt.2.tool_calls.0.arguments"]


@pytest.mark.parametrize(
    "span",
    [
        FLAT,
        LISTED,
        ROW,
        NESTED,
        LLMETRY,
        AS_JSON,
        {"attributes": FLAT},
        {"attributes": NESTED},
        {"attributes": LLMETRY},
    ],
)
def test_the_attributes_of_a_span_are_messages(span: JSON) -> None:
    assert convert_recording(span) == READ
    assert is_conversation(span)
    assert find_end(span) == ("stop", None)


def test_the_role_of_googles_models_is_the_assistants() -> None:
    said = [{"message.role": "model", "message.tool_calls": [{"tool_call.function.name": "look_up"}]}]
    asked = [ASKED[1], {"message.role": "model", "message.content": "Wait."}]
    span = {**INFERENCE, **flat("llm.input_messages", asked), **flat("llm.output_messages", said)}
    assert [(message.role, message.content) for message in convert_recording(span)] == [
        ("user", "Where is BRCA1?"),
        ("assistant", "Wait."),
        ("assistant", ""),
    ]


def test_more_than_ten_messages_keep_their_order() -> None:
    messages = [{"role": "user" if place % 2 == 0 else "assistant", "content": str(place)} for place in range(13)]
    attributes = dict(reversed(flat("gen_ai.prompt", messages).items()))
    assert [message.content for message in convert_recording(attributes)] == [str(place) for place in range(13)]


def test_parts_other_than_texts_are_described_or_reasoning() -> None:
    contents = [
        {"message_content.type": "text", "message_content.text": "Look."},
        {"message_content.type": "image", "message_content.image.image.url": "https://example.org/a.png"},
    ]
    thoughts = [
        {"message_content.type": "reasoning", "message_content.text": "Hmm."},
        {"message_content.type": "text", "message_content.text": "Yes."},
        {"message_content.type": "tool_use", **FUNCTION},
    ]
    asked = {"message.role": "user", "message.contents": contents}
    said = {"message.role": "assistant", "message.contents": thoughts}
    assert convert_recording({"llm.input_messages": [asked], "llm.output_messages": [said]}) == [
        Message.user('Look.\n[image] {"image": {"image": {"url": "https://example.org/a.png"}}}'),
        Message.assistant("Yes.", [LOOK], "Hmm."),
    ]


@pytest.mark.parametrize(
    "span",
    [
        {**LLMETRY, "gen_ai.completion.0.finish_reason": "length"},
        {**FLAT, "llm.finish_reason": "length"},
        {**LISTED, "gen_ai.response.finish_reasons": ["length"]},
    ],
)
def test_a_span_states_how_the_reply_ended(span: JSON) -> None:
    assert find_end({"attributes": span}) == ("length", None)


def test_an_export_contains_the_calls_of_a_conversation() -> None:
    def span(start: int, attributes: JSON) -> JSON:
        pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
        return {"startTimeUnixNano": str(start), "attributes": pairs}

    first = {**flat("llm.input_messages", ASKED[:2]), **flat("llm.output_messages", ASKED[2:3])}
    chain = {"openinference.span.kind": "CHAIN", "input.value": "Where is BRCA1?"}
    listed = [span(3, FLAT | {"llm.token_count.prompt": "9"}), span(1, chain), span(2, first)]
    assert convert_recording({"resourceSpans": [{"scopeSpans": [{"spans": listed}]}]}) == READ


def test_a_message_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(TraceFormatError, match="entry 1: unknown role None"):
        convert_recording({"gen_ai.prompt.0.content": "x"})
    with pytest.raises(TraceFormatError, match="entry 1: an entry in tool_calls has no function with a name"):
        convert_recording({"gen_ai.completion.0.tool_calls.0.id": "c1"})
