"""The contract of every shape of a conversation: one conversation, written in each, is read as the same messages.

The tests run over the registry, so a shape without a sample here fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces import (
    TraceFormatError,
    convert_recording,
    final_ai_message,
    find_end,
    is_conversation,
    is_limit_reached,
    is_transcript,
    parse_conversation,
    read_transcript,
    validate_trace,
)
from karenina_toolkit.traces.formats.openai_chat import UNREADABLE_ARGUMENTS
from karenina_toolkit.traces.formats.registry import FORMATS
from karenina_toolkit.traces.recording import ENVELOPES

JSON = dict[str, Any]
Write = Callable[[Sequence[Message]], Any]
FOR_EACH = settings().max_examples // 3
"""Examples of a law that is held for each of many shapes."""
LOOK = ToolCall("call_1", "look", {"place": "Peru", "depth": "2"})
COUNT = ToolCall("call_2", "count", {})
CONVERSATION = (
    Message.system("Be brief."),
    Message.user("What is the capital of Peru?"),
    Message.assistant("I look twice.", [LOOK, COUNT], "Where is it?"),
    Message.tool("Lima", LOOK),
    Message.tool("Error: no such table", COUNT, is_error=True),
    Message.assistant("It is Lima.", reasoning="That settles it."),
)


@dataclass(frozen=True)
class Shape:
    """How messages are written in a shape, what it cannot say, and a user's entry with a picture in it."""

    write: Write
    picture: Any = None
    loses: Callable[[Message], Message | None] = lambda message: message

    def expected(self, messages: Sequence[Message]) -> list[Message]:
        return [kept for message in messages if (kept := self.loses(message)) is not None]


def dump(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False)


def each(write: Callable[[Message], JSON]) -> Callable[[Sequence[Message]], list[JSON]]:
    """Write a conversation in a shape that has one entry for each message."""
    return lambda messages: [write(message) for message in messages]


@each
def chat(message: Message) -> JSON:
    entry: JSON = {"role": message.role, "content": message.content}
    if message.tool_calls:
        entry["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": dump(call.arguments)}}
            for call in message.tool_calls
        ]
    if message.reasoning:
        entry["reasoning_content"] = message.reasoning
    if message.role == "tool":
        entry |= {"tool_call_id": message.tool_call_id, "is_error": message.is_error}
    return entry


def responses(messages: Sequence[Message]) -> list[JSON]:
    items: list[JSON] = []
    for message in messages:
        if message.role == "tool":
            status = "failed" if message.is_error else "completed"
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": message.tool_call_id,
                    "output": message.content,
                    "status": status,
                }
            )
            continue
        if message.reasoning:
            items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": message.reasoning}]})
        kind = "output_text" if message.role == "assistant" else "input_text"
        content = [{"type": kind, "text": message.content}] if message.content else []
        if content or not message.tool_calls:
            items.append({"type": "message", "role": message.role, "content": content})
        items += [
            {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": dump(call.arguments)}
            for call in message.tool_calls
        ]
    return items


def parts_of(message: Message, thought: JSON, text: JSON, called: Callable[[ToolCall], JSON]) -> list[JSON]:
    """Return the parts of a message: reasoning and text if it has them, and its calls."""
    said = [*[thought] * bool(message.reasoning), *[text] * bool(message.content)]
    return said + [called(call) for call in message.tool_calls]


@each
def anthropic(message: Message) -> JSON:
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}
        return {"role": "user", "content": [{**result, "is_error": message.is_error}]}
    blocks = parts_of(
        message,
        {"type": "thinking", "thinking": message.reasoning, "signature": "x"},
        {"type": "text", "text": message.content},
        lambda call: {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)},
    )
    return {"role": message.role, "content": blocks}


@each
def google(message: Message) -> JSON:
    role = {"assistant": "model", "tool": "user"}.get(message.role, message.role)
    if message.role == "tool":
        key = "error" if message.is_error else "output"
        response = {"id": message.tool_call_id, "name": message.tool_name, "response": {key: message.content}}
        return {"role": role, "parts": [{"functionResponse": response}]}
    parts = parts_of(
        message,
        {"text": message.reasoning, "thought": True},
        {"text": message.content},
        lambda call: {"functionCall": {"id": call.id, "name": call.name, "args": dict(call.arguments)}},
    )
    return {"role": role, "parts": parts}


@each
def bedrock(message: Message) -> JSON:
    if message.role == "tool":
        status = "error" if message.is_error else "success"
        result = {"toolUseId": message.tool_call_id, "content": [{"text": message.content}], "status": status}
        return {"role": "user", "content": [{"toolResult": result}]}
    blocks = parts_of(
        message,
        {"reasoningContent": {"reasoningText": {"text": message.reasoning, "signature": "x"}}},
        {"text": message.content},
        lambda call: {"toolUse": {"toolUseId": call.id, "name": call.name, "input": dict(call.arguments)}},
    )
    return {"role": message.role, "content": blocks}


@each
def langchain(message: Message) -> JSON:
    kinds = {"user": "human", "assistant": "ai"}
    entry: JSON = {"type": kinds.get(message.role, message.role), "content": message.content, "id": None}
    if message.role == "assistant":
        entry["additional_kwargs"] = {"reasoning_content": message.reasoning} if message.reasoning else {}
        entry["tool_calls"] = [
            {"name": call.name, "args": dict(call.arguments), "id": call.id, "type": "tool_call"}
            for call in message.tool_calls
        ]
        entry["invalid_tool_calls"] = []
    if message.role == "tool":
        status = "error" if message.is_error else "success"
        entry |= {"name": message.tool_name, "tool_call_id": message.tool_call_id, "status": status}
    return entry


def langchain_dicts(messages: Sequence[Message]) -> list[JSON]:
    return [{"type": entry["type"], "data": entry} for entry in langchain(messages)]


def langchain_constructors(messages: Sequence[Message]) -> list[JSON]:
    classes = {"human": "HumanMessage", "ai": "AIMessage", "system": "SystemMessage", "tool": "ToolMessage"}
    return [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", classes[entry["type"]]]}
        | {"kwargs": entry}
        for entry in langchain(messages)
    ]


def openai_agents(messages: Sequence[Message]) -> list[JSON]:
    kinds = {
        "message": "message_output_item",
        "reasoning": "reasoning_item",
        "function_call": "tool_call_item",
        "function_call_output": "tool_call_output_item",
    }
    return [
        item if item.get("role") in ("user", "system") else {"type": kinds[item["type"]], "raw_item": item}
        for item in responses(messages)
    ]


def autogen(messages: Sequence[Message]) -> list[JSON]:
    entries: list[JSON] = []
    for message in messages:
        if message.role == "system":
            entries.append({"type": "SystemMessage", "content": message.content})
        elif message.role == "tool":
            result = {"content": message.content, "name": message.tool_name, "call_id": message.tool_call_id}
            content = [{**result, "is_error": message.is_error}]
            entries.append({"source": "guide", "type": "ToolCallExecutionEvent", "content": content})
        elif message.role == "user":
            entries.append({"source": "user", "type": "TextMessage", "content": message.content})
        else:
            if message.reasoning:
                entries.append({"source": "guide", "type": "ThoughtEvent", "content": message.reasoning})
            calls = [
                {"id": call.id, "name": call.name, "arguments": dump(call.arguments)} for call in message.tool_calls
            ]
            kind = "ToolCallRequestEvent" if calls else "TextMessage"
            entries.append({"source": "guide", "type": kind, "content": calls or message.content})
    return entries


def without_text_beside_calls(message: Message) -> Message:
    return replace(message, content="") if message.tool_calls else message


@each
def opentelemetry(message: Message) -> JSON:
    if message.role == "tool":
        part: JSON = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}
        return {"role": "tool", "parts": [part | ({"is_error": True} if message.is_error else {})]}
    parts = parts_of(
        message,
        {"type": "reasoning", "content": message.reasoning},
        {"type": "text", "content": message.content},
        lambda call: {"type": "tool_call", "id": call.id, "name": call.name, "arguments": dict(call.arguments)},
    )
    return {"role": message.role, "parts": parts}


@each
def inspect_ai(message: Message) -> JSON:
    entry: JSON = {"role": message.role, "content": message.content, "source": "generate"}
    if message.reasoning:
        thought = {"type": "reasoning", "reasoning": message.reasoning, "redacted": False}
        entry["content"] = [thought, {"type": "text", "text": message.content}]
    if message.tool_calls:
        entry["tool_calls"] = [
            {"id": call.id, "function": call.name, "arguments": dict(call.arguments), "type": "function"}
            for call in message.tool_calls
        ]
    if message.role == "tool":
        entry |= {"tool_call_id": message.tool_call_id, "function": message.tool_name}
        entry["error"] = {"type": "unknown", "message": message.content} if message.is_error else None
    return entry


def claude_code(messages: Sequence[Message]) -> list[JSON]:
    lines: list[JSON] = [{"type": "summary", "summary": "Capitals", "leafUuid": "9"}]
    for number, entry in enumerate(anthropic([message for message in messages if message.role != "system"])):
        about = {"uuid": str(number), "parentUuid": str(number - 1) if number else None, "sessionId": "s"}
        if entry["role"] == "assistant" and entry["content"]:
            # One line for each block, all of one reply.
            lines += [
                {"type": "assistant", **about, "uuid": f"{number}{place}", "isSidechain": False}
                | {"message": {"id": f"msg_{number}", "role": "assistant", "content": [block]}}
                for place, block in enumerate(entry["content"])
            ]
        else:
            lines.append({"type": "assistant" if entry["role"] == "assistant" else "user", **about, "message": entry})
    return lines


def without_instructions(message: Message) -> Message | None:
    return None if message.role == "system" else message


def trace_messages(messages: Sequence[Message]) -> list[JSON]:
    entries: list[JSON] = []
    for place, message in enumerate(messages):
        entry: JSON = {"role": message.role, "content": message.content, "block_index": place}
        if message.tool_calls:
            entry["tool_calls"] = [
                {"id": call.id, "name": call.name, "input": dict(call.arguments)} for call in message.tool_calls
            ]
        if message.reasoning:
            entry["thinking"] = message.reasoning
        if message.role == "tool":
            entry["tool_result"] = {"tool_use_id": message.tool_call_id, "is_error": message.is_error}
        entries.append(entry)
    return entries


def codex(messages: Sequence[Message]) -> list[JSON]:
    items = [{"type": "message", **item} if "role" in item else item for item in responses(messages)]
    return [{"timestamp": "t", "type": "response_item", "payload": item} for item in items]


def gemini_cli(messages: Sequence[Message]) -> list[JSON]:
    entries = list[JSON]()
    for message in messages:
        entry: JSON = {"id": str(len(entries)), "timestamp": "t", "type": "user", "content": message.content}
        if message.role == "tool":
            response = {"error" if message.is_error else "output": message.content}
            about = {"id": message.tool_call_id, "name": message.tool_name, "response": response}
            entry["content"] = [{"functionResponse": about}]
        elif message.role == "assistant":
            thoughts = [{"subject": "", "description": message.reasoning}] if message.reasoning else []
            calls = [
                {"id": call.id, "name": call.name, "args": dict(call.arguments), "status": "executing"}
                for call in message.tool_calls
            ]
            entry |= {"type": "gemini", "thoughts": thoughts, "toolCalls": calls}
        if message.role != "system":
            entries.append(entry)
    return entries


def adk(messages: Sequence[Message]) -> list[JSON]:
    return [
        {
            "author": "user" if message.role == "user" else "guide",
            "invocationId": "1",
            "content": content,
            "actions": {},
        }
        for message, content in zip(messages, google(messages), strict=True)
        if message.role != "system"
    ]


def ag_ui(messages: Sequence[Message]) -> list[JSON]:
    entries = list[JSON]()
    for number, message in enumerate(messages):
        if message.reasoning:
            entries.append({"id": f"r{number}", "role": "reasoning", "content": message.reasoning})
        entry: JSON = {"id": f"m{number}", "role": message.role, "content": message.content}
        if message.role == "tool":
            entry["toolCallId"] = message.tool_call_id
            if message.is_error:
                entry["error"] = message.content
        if message.tool_calls:
            entry["toolCalls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
                }
                for call in message.tool_calls
            ]
        entries.append(entry)
    return entries


def without_failures(message: Message) -> Message:
    return replace(message, is_error=False)


def ag_ui_events(messages: Sequence[Message]) -> list[JSON]:
    events: list[JSON] = [{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}]
    for number, message in enumerate(messages):
        name = f"m{number}"
        if message.role == "tool":
            about = {"toolCallId": message.tool_call_id, "content": message.content}
            events.append({"type": "TOOL_CALL_RESULT", "messageId": name, **about})
            continue
        if message.reasoning:
            events.append({"type": "REASONING_MESSAGE_CHUNK", "messageId": f"r{number}", "delta": message.reasoning})
        events.append({"type": "TEXT_MESSAGE_START", "messageId": name, "role": message.role})
        events.append({"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": message.content})
        for call in message.tool_calls:
            begin = {"toolCallId": call.id, "toolCallName": call.name, "parentMessageId": name}
            events.append({"type": "TOOL_CALL_START", **begin})
            events.append({"type": "TOOL_CALL_ARGS", "toolCallId": call.id, "delta": dump(call.arguments)})
    return events


def ai_sdk(messages: Sequence[Message]) -> list[JSON]:
    entries = list[JSON]()
    for message in messages:
        if message.role == "tool":
            output = {"type": "error-text" if message.is_error else "text", "value": message.content}
            part = {"type": "tool-result", "toolCallId": message.tool_call_id, "toolName": message.tool_name}
            entries.append({"role": "tool", "content": [{**part, "output": output}]})
            continue
        if message.role != "assistant":
            entries.append({"role": message.role, "content": message.content})
            continue
        parts = [{"type": "reasoning", "text": message.reasoning}] if message.reasoning else []
        parts += [{"type": "text", "text": message.content}] if message.content else []
        calls = [
            {"type": "tool-call", "toolCallId": call.id, "toolName": call.name, "input": dict(call.arguments)}
            for call in message.tool_calls
        ]
        entries.append({"role": "assistant", "content": [*parts, *calls]})
    return entries


def ai_sdk_interface(messages: Sequence[Message]) -> list[JSON]:
    entries = list[JSON]()
    for number, message in enumerate(messages):
        if message.role == "tool":
            (part,) = (part for part in entries[-1]["parts"] if part.get("toolCallId") == message.tool_call_id)
            failed = message.is_error
            part["state"] = "output-error" if failed else "output-available"
            part["errorText" if failed else "output"] = message.content
            continue
        parts = parts_of(
            message,
            {"type": "reasoning", "text": message.reasoning, "state": "done"},
            {"type": "text", "text": message.content},
            lambda call: {
                "type": f"tool-{call.name}",
                "toolCallId": call.id,
                "state": "input-available",
                "input": dict(call.arguments),
            },
        )
        entries.append({"id": str(number), "role": message.role, "parts": parts})
    return entries


@each
def pydantic_ai(message: Message) -> JSON:
    if message.role == "assistant":
        parts = parts_of(
            message,
            {"part_kind": "thinking", "content": message.reasoning},
            {"part_kind": "text", "content": message.content},
            lambda call: {
                "part_kind": "tool-call",
                "tool_name": call.name,
                "args": dump(call.arguments),
                "tool_call_id": call.id,
            },
        )
        return {"kind": "response", "parts": parts, "model_name": "m", "state": "complete"}
    kind = {"system": "system-prompt", "user": "user-prompt", "tool": "tool-return"}[message.role]
    part: JSON = {"part_kind": kind, "content": message.content, "timestamp": "t"}
    if message.role == "tool":
        part |= {"tool_name": message.tool_name, "tool_call_id": message.tool_call_id}
        part["outcome"] = "failed" if message.is_error else "success"
    return {"kind": "request", "parts": [part], "instructions": None}


@each
def swe_agent(message: Message) -> JSON:
    entry = {"agent": "main", "message_type": "observation", **chat([message])[0]}
    if message.role == "tool":
        entry |= {"tool_call_ids": [message.tool_call_id], "extra": {"returncode": int(message.is_error)}}
    if message.role == "assistant":
        entry |= {"thought": message.content, "action": "", "reasoning_content": message.reasoning}
    return entry


BYTES = "iVBORw0K" * 40
URL = {"url": f"data:image/png;base64,{BYTES}"}
SOURCE = {"type": "base64", "media_type": "image/png", "data": BYTES}
SHAPES: dict[str, Shape] = {
    "OpenAI chat messages": Shape(
        chat, {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": URL}]}
    ),
    "OpenAI Responses items": Shape(
        responses,
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": URL["url"]}],
        },
    ),
    "Anthropic messages": Shape(
        anthropic, {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image", "source": SOURCE}]}
    ),
    "Google contents": Shape(
        google,
        {"role": "user", "parts": [{"text": "Look."}, {"inlineData": {"mimeType": "image/png", "data": BYTES}}]},
    ),
    "Amazon Bedrock messages": Shape(
        bedrock,
        {"role": "user", "content": [{"text": "Look."}, {"image": {"format": "png", "source": {"bytes": BYTES}}}]},
    ),
    "LangChain messages": Shape(
        langchain,
        {"type": "human", "content": [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": URL}]},
    ),
    "OpenAI Agents items": Shape(
        openai_agents,
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": URL["url"]}],
        },
    ),
    "AutoGen messages": Shape(
        autogen,
        {"source": "user", "type": "MultiModalMessage", "content": ["Look.", {"data": BYTES}]},
        without_text_beside_calls,
    ),
    "OpenTelemetry messages": Shape(
        opentelemetry,
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "Look."},
                {"type": "blob", "modality": "image", "mime_type": "image/png", "content": BYTES},
            ],
        },
    ),
    "Inspect messages": Shape(
        inspect_ai,
        {
            "role": "user",
            "source": "input",
            "content": [{"type": "text", "text": "Look."}, {"type": "image", "image": URL["url"]}],
        },
    ),
    "Claude Code transcripts": Shape(
        claude_code,
        {
            "type": "user",
            "sessionId": "s",
            "message": {
                "role": "user",
                "content": [{"type": "text", "text": "Look."}, {"type": "image", "source": SOURCE}],
            },
        },
        without_instructions,
    ),
    "Codex sessions": Shape(
        codex,
        {
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": URL["url"]}],
            },
        },
    ),
    "Gemini CLI sessions": Shape(
        gemini_cli,
        {
            "id": "p",
            "timestamp": "t",
            "type": "user",
            "content": [{"text": "Look."}, {"inlineData": {"mimeType": "image/png", "data": BYTES}}],
        },
        without_instructions,
    ),
    "Google ADK events": Shape(
        adk,
        {
            "author": "user",
            "content": {
                "role": "user",
                "parts": [{"text": "Look."}, {"inlineData": {"mimeType": "image/png", "data": BYTES}}],
            },
        },
        without_instructions,
    ),
    "AG-UI messages": Shape(
        ag_ui,
        {
            "id": "1",
            "role": "user",
            "content": [{"type": "text", "text": "Look."}, {"type": "binary", "mimeType": "image/png", "data": BYTES}],
        },
    ),
    "AG-UI events": Shape(
        ag_ui_events,
        {
            "type": "RUN_STARTED",
            "input": {
                "messages": [
                    {
                        "id": "1",
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "Look."},
                            {"type": "binary", "mimeType": "image/png", "data": BYTES},
                        ],
                    }
                ]
            },
        },
        without_failures,
    ),
    "AI SDK messages": Shape(
        ai_sdk,
        {
            "role": "user",
            "content": [{"type": "text", "text": "Look."}, {"type": "image", "image": BYTES, "mediaType": "image/png"}],
        },
    ),
    "Pydantic AI messages": Shape(
        pydantic_ai,
        {
            "kind": "request",
            "parts": [
                {
                    "part_kind": "user-prompt",
                    "content": ["Look.", {"kind": "binary", "data": BYTES, "media_type": "image/png"}],
                }
            ],
        },
    ),
    "SWE-agent trajectories": Shape(
        swe_agent,
        {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": URL}]},
    ),
    "trace_messages": Shape(
        trace_messages,
        {
            "role": "user",
            "block_index": 0,
            "content": [{"type": "text", "text": "Look."}, {"type": "image", "source": SOURCE}],
        },
    ),
    "Karenina's own": Shape(lambda messages: [message.to_dict() for message in messages]),
}
NO_PICTURES = ("Karenina's own",)
MORE_FORMS = {
    "AI SDK UI messages": Shape(ai_sdk_interface),
    "LangChain messages_to_dict": Shape(langchain_dicts),
    "LangChain dumpd": Shape(langchain_constructors),
}
every_format = pytest.mark.parametrize("name", [known.name for known in FORMATS])
every_form = pytest.mark.parametrize("name", [*(known.name for known in FORMATS), *MORE_FORMS])


def shape_of(name: str) -> Shape:
    return {**SHAPES, **MORE_FORMS}[name]


def replied(messages: Sequence[Message], write: Write) -> JSON:
    """Return the last message in the shape of a chat service."""
    (entry,) = write(messages[-1:])
    return dict(entry)


def otlp(value: Any) -> JSON:
    return {"stringValue": json.dumps(value)}


def spans(messages: Sequence[Message]) -> JSON:
    """Return the export of a span for each call, of which each repeats those before it, below that of an agent."""
    found = []
    for place, message in enumerate(messages):
        if message.role == "assistant":
            asked, said = opentelemetry(messages[1:place]), opentelemetry([message])
            attributes = {"gen_ai.input.messages": otlp(asked), "gen_ai.output.messages": otlp(said)}
            attributes["gen_ai.system_instructions"] = otlp([{"type": "text", "content": messages[0].content}])
            attributes["gen_ai.operation.name"] = {"stringValue": "chat"}
            found.append(attributes)
    agent = {"gen_ai.operation.name": {"stringValue": "invoke_agent"}}
    agent |= {"gen_ai.input.messages": found[0]["gen_ai.input.messages"]}
    agent |= {"gen_ai.output.messages": found[-1]["gen_ai.output.messages"]}
    listed = [
        {
            "startTimeUnixNano": str(start),
            "attributes": [{"key": key, "value": value} for key, value in attributes.items()],
        }
        for start, attributes in enumerate([agent, *found])
    ]
    return {"resourceSpans": [{"scopeSpans": [{"spans": listed[::-1]}]}]}


def only_the_reply(messages: Sequence[Message]) -> list[Message]:
    return list(messages[-1:])


def everything(messages: Sequence[Message]) -> list[Message]:
    return list(messages)


def said_by_autogen(messages: Sequence[Message]) -> list[Message]:
    return [without_text_beside_calls(message) for message in messages]


ENVELOPED: dict[str, tuple[Write, Callable[[Sequence[Message]], list[Message]]]] = {
    "messages": (
        lambda messages: {"messages": anthropic(messages[1:]), "system": messages[0].content, "model": "m"},
        everything,
    ),
    "LangGraph state": (lambda messages: {"messages": langchain(messages), "next": "end"}, everything),
    "LangGraph snapshot": (
        lambda messages: {"values": {"messages": langchain_dicts(messages)}, "next": []},
        everything,
    ),
    "Bedrock request": (
        lambda messages: {
            "modelId": "m",
            "system": [{"text": messages[0].content}, {"cachePoint": {"type": "default"}}],
            "messages": bedrock(messages[1:]),
        },
        everything,
    ),
    "Inspect sample": (
        lambda messages: {
            "id": 1,
            "input": "?",
            "target": "Lima",
            "messages": inspect_ai(messages),
            "output": {"choices": []},
        },
        everything,
    ),
    "AutoGen result": (
        lambda messages: {"messages": autogen(messages), "stop_reason": "done"},
        said_by_autogen,
    ),
    "Responses request or response": (
        lambda messages: {
            "object": "response",
            "instructions": messages[0].content,
            "input": responses(messages[1:2]),
            "output": responses(messages[2:]),
        },
        everything,
    ),
    "Google request": (
        lambda messages: {
            "systemInstruction": {"parts": [{"text": messages[0].content}]},
            "contents": google(messages[1:]),
        },
        everything,
    ),
    "chat completion": (
        lambda messages: {
            "id": "c",
            "object": "chat.completion",
            "choices": [{"index": 0, "message": replied(messages, chat), "finish_reason": "stop"}],
        },
        only_the_reply,
    ),
    "Google response": (lambda messages: {"candidates": [{"content": replied(messages, google)}]}, only_the_reply),
    "Bedrock response": (
        lambda messages: {"output": {"message": replied(messages, bedrock)}, "stopReason": "end_turn"},
        only_the_reply,
    ),
    "OpenAI Agents result": (
        lambda messages: {"input": responses(messages[:2]), "new_items": openai_agents(messages[2:])},
        everything,
    ),
    "AutoGen response or state": (
        lambda messages: {
            "type": "TeamState",
            "agent_states": {
                "manager": {"message_thread": autogen(messages)},
                "guide": {"agent_state": {"llm_context": {"messages": []}}},
            },
        },
        said_by_autogen,
    ),
    "AutoGen response": (
        lambda messages: {"inner_messages": autogen(messages[:-1]), "chat_message": autogen(messages[-1:])[-1]},
        lambda messages: [*said_by_autogen(messages[:-1]), replace(messages[-1], reasoning=None)],
    ),
    "OpenTelemetry spans": (spans, everything),
    "OpenTelemetry attributes": (
        lambda messages: {
            "attributes": {
                "gen_ai.input.messages": opentelemetry(messages[:-1]),
                "gen_ai.output.messages": json.dumps(opentelemetry(messages[-1:])),
            }
        },
        everything,
    ),
    "OpenInference attributes": (
        lambda messages: {
            "llm.input_messages": [{"message": entry} for entry in chat(messages[:-1])],
            "llm.output_messages.0.message.content": messages[-1].content,
        },
        lambda messages: [*messages[:-1], replace(messages[-1], reasoning=None)],
    ),
    "Claude Code result": (
        lambda messages: {"type": "result", "subtype": "success", "result": messages[-1].content, "session_id": "s"},
        lambda messages: [Message.assistant(messages[-1].content)],
    ),
    "ADK session": (
        lambda messages: {"id": "s", "appName": "a", "userId": "u", "state": {}, "events": adk(messages)},
        lambda messages: list(messages[1:]),
    ),
    "SWE-agent trajectory": (
        lambda messages: {
            "info": {"exit_status": "submitted", "submission": messages[-1].content},
            "history": swe_agent(messages[:-1]),
            "trajectory": [],
        },
        lambda messages: [*messages[:-1], Message.assistant(messages[-1].content)],
    ),
    "Gemini CLI output": (
        lambda messages: {"response": messages[-1].content, "stats": {"models": {}}, "session_id": "s"},
        lambda messages: [Message.assistant(messages[-1].content)],
    ),
    "one message": (
        lambda messages: {"type": "message", **anthropic(messages[-1:])[0]},
        only_the_reply,
    ),
}


@every_form
def test_a_conversation_is_read_the_same_in_every_shape(name: str) -> None:
    shape = shape_of(name)
    recording = shape.write(CONVERSATION)
    assert convert_recording(recording) == shape.expected(CONVERSATION)
    assert final_ai_message(recording) == "It is Lima."
    assert is_conversation(recording)
    assert parse_conversation(json.dumps(recording)) == shape.expected(CONVERSATION)


@every_form
def test_an_empty_last_turn_is_kept_in_every_shape(name: str) -> None:
    messages = [*CONVERSATION[:-1], Message.assistant("")]
    shape = shape_of(name)
    recording = shape.write(messages)
    assert convert_recording(recording) == shape.expected(messages)
    assert "has no text" in str(validate_trace(recording).error)


@every_form
def test_a_conversation_may_end_with_a_result_in_every_shape(name: str) -> None:
    shape = shape_of(name)
    recording = shape.write(CONVERSATION[:-1])
    assert convert_recording(recording) == shape.expected(CONVERSATION[:-1])
    assert "ends with a tool message" in str(validate_trace(recording).error)


@every_format
def test_a_picture_is_named_in_every_shape(name: str) -> None:
    if name in NO_PICTURES:
        assert SHAPES[name].picture is None
        return
    shape = SHAPES[name]
    asked, *_ = convert_recording([shape.picture, *shape.write(CONVERSATION[2:])])
    assert asked.role == "user"
    assert asked.content.startswith("Look.\n[")
    assert "image" in asked.content
    assert "encoded characters" in asked.content
    assert BYTES not in asked.content


@pytest.mark.parametrize("name", [*dict.fromkeys([*(one.name for one in ENVELOPES), *ENVELOPED])])
def test_a_conversation_is_found_in_every_object(name: str) -> None:
    write, expected = ENVELOPED[name]
    recording = write(CONVERSATION)
    assert convert_recording(recording) == expected(CONVERSATION)
    assert final_ai_message(recording) == "It is Lima."
    assert is_conversation(recording)


LABELLED = """System: Be brief.

User: What is the capital of Peru?

Thinking: Where is it?
Assistant: I look twice.
Tool call: look({"place": "Peru", "depth": "2"})
Tool call: count()
Tool (look): Lima
Tool (count, error): Error: no such table

Thinking: That settles it.
**Assistant:** It is Lima."""
PRINTED = """================================ System Message ================================

Be brief.
================================ Human Message =================================

What is the capital of Peru?
================================== Ai Message ==================================

I look twice.
Tool Calls:
  look (call_1)
 Call ID: call_1
  Args:
    place: Peru
    depth: 2
  count (call_2)
 Call ID: call_2
  Args:
================================= Tool Message =================================
Name: look

Lima
================================= Tool Message =================================
Name: count

Error: no such table
================================== Ai Message ==================================

It is Lima."""


def test_a_text_with_roles_is_read_as_the_same_messages() -> None:
    assert is_transcript(LABELLED)
    assert read_transcript(LABELLED) == list(CONVERSATION)
    assert parse_conversation(f"\n{LABELLED}\n") == list(CONVERSATION)


def test_a_text_that_langchain_printed_has_neither_thoughts_nor_errors() -> None:
    assert is_transcript(PRINTED)
    expected = [replace(message, reasoning=None, is_error=False) for message in CONVERSATION]
    assert read_transcript(PRINTED) == expected


def test_an_action_without_input_is_a_call_too() -> None:
    call = ToolCall("call_1", "search", {UNREADABLE_ARGUMENTS: "[Lima]"})
    last = ToolCall("call_2", "finish", {})
    text = "User: Where?\nAction: search[Lima]\nObservation: Peru\nThought: Done.\nAction: finish"
    assert read_transcript(text) == [
        Message.user("Where?"),
        Message.assistant("", [call]),
        Message.tool("Peru", call),
        Message.assistant("", [last], "Done."),
    ]


@pytest.mark.parametrize("action", ["None", "N/A", "-", "Restart.", "Call them now"])
def test_an_action_that_names_no_tool_is_text(action: str) -> None:
    assert read_transcript(f"User: What now?\nThought: Easy.\nAction: {action}\nFinal Answer: 42") == [
        Message.user("What now?"),
        Message.assistant(f"Action: {action}", (), "Easy."),
        Message.assistant("42"),
    ]


def test_an_input_belongs_to_the_last_action() -> None:
    first, second = ToolCall("call_1", "search", {"q": "Lima"}), ToolCall("call_2", "search", {"q": "Peru"})
    text = (
        'User: Where?\nAction: search\nThought: I need an input.\nAction Input: {"q": "Lima"}\nObservation: Peru\n'
        'Thought: Again.\nAction Input: {"q": "Peru"}\nObservation: America\nFinal Answer: America.'
    )
    assert read_transcript(text) == [
        Message.user("Where?"),
        Message.assistant("", [first], "I need an input."),
        Message.tool("Peru", first),
        Message.assistant("", [second], "Again."),
        Message.tool("America", second),
        Message.assistant("America."),
    ]


def test_a_line_of_an_answer_that_begins_with_action_stays_its_text() -> None:
    assert read_transcript("User: What now?\nAssistant: I advise this.\nAction: Drink more water.") == [
        Message.user("What now?"),
        Message.assistant("I advise this.\nAction: Drink more water."),
    ]


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("{'q': (1, None)}", {"q": [1, None]}),
        ("{'q': {1, 2}}", {UNREADABLE_ARGUMENTS: "{'q': {1, 2}}"}),
        ("{'q': b'x'}", {UNREADABLE_ARGUMENTS: "{'q': b'x'}"}),
    ],
)
def test_arguments_in_python_become_json_or_stay_unread(written: str, arguments: dict[str, Any]) -> None:
    messages = read_transcript(f"User: Where?\nTool call: search({written})\nAssistant: Lima.")
    assert messages[1] == Message.assistant("", [ToolCall("call_1", "search", arguments)])
    json.dumps([message.to_dict() for message in messages])


def test_actions_and_observations_are_calls_and_results() -> None:
    text = 'User: Where?\nThought: Hmm.\nAction: look\nAction Input: {"q": "x"}\nObservation: Lima\nFinal Answer: Lima.'
    call = ToolCall("call_1", "look", {"q": "x"})
    assert parse_conversation(text) == [
        Message.user("Where?"),
        Message.assistant("", [call], "Hmm."),
        Message.tool("Lima", call),
        Message.assistant("Lima."),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "It is Lima.",
        "Answer: Lima\nAssistant: x",
        "The user said:\nUser: x\nAssistant: y",
        "User: x",
        '{"capital": "Lima"}',
        '[{"city": "Lima"}]',
        '["Lima"]',
        '[{"role": "user", "content": "x"}]',
        "[1, 2",
        "",
    ],
)
def test_a_text_that_is_no_conversation_stays_a_text(text: str) -> None:
    assert parse_conversation(text) is None


@pytest.mark.parametrize(
    ("recording", "problem"),
    [
        ({"messages": chat(CONVERSATION), "choices": []}, "both 'messages' and 'choices'"),
        (
            {"capital": "Lima"},
            "an object without any of the keys 'messages'.*known formats are OpenAI chat messages, .*Inspect",
        ),
        ([{"role": "assistant", "parts": [{"kind": "text", "text": "x"}]}], "entry 1 has an unknown format"),
        (
            [*langchain(CONVERSATION), *anthropic(CONVERSATION)],
            "entry 1 has the format LangChain messages, but entry 9 has the format Anthropic",
        ),
        ([{"type": "ai", "content": [{"type": {}}]}], "entry 1: a content part has no type"),
        (
            [*bedrock(CONVERSATION), *anthropic(CONVERSATION)],
            "entry 1 has the format Amazon Bedrock.* entry 9 has the format Anthropic",
        ),
        ([{"type": "TextMessage", "source": "user", "content": 5}], "entry 1: the content must be text, not int"),
        ([{"type": "ai", "content": "", "tool_calls": [{"args": {}}]}], "entry 1: a tool call has no name"),
        ([{"role": "user", "content": [{"toolResult": {}}]}], "entry 1: a toolResult has no toolUseId"),
        ([{"role": "user", "content": [{"text": "x", "image": {}}]}], "entry 1: a content block .* a single key"),
        ([{"role": "user", "parts": [{"type": "text", "content": 5}]}], "entry 1: a part of type text has no"),
        ([{"type": "tool_call_item"}], "entry 1 is not a message"),
        ({"new_items": [{"type": "tool_call_item"}]}, "entry 1: a tool_call_item has no raw_item"),
        (
            [{"role": "assistant", "source": "generate", "content": 5}],
            "entry 1: the content must be text or a list of parts, not int",
        ),
        (
            [{"type": "user", "sessionId": "s", "message": {"content": 5}}],
            "entry 1: the content must be text or a list of blocks, not int",
        ),
        ({"messages": [{"role": "user", "content": "attachment://" + "0" * 32}], "attachments": {}}, "is missing"),
        ({"agent_states": {"a": {}}}, "contains 0 conversations"),
        ({"input": 1.5, "new_items": []}, "the input must be text or a list of items, not float"),
    ],
)
def test_what_could_be_two_things_or_none_is_an_error(recording: Any, problem: str) -> None:
    with pytest.raises(TraceFormatError, match=problem):
        convert_recording(recording)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
CALLS = st.builds(ToolCall, st.uuids().map(str), TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=2))


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    messages = [Message.user(draw(TEXTS))]
    for calls in draw(st.lists(st.lists(CALLS, min_size=1, max_size=2), max_size=2)):
        messages.append(Message.assistant(draw(TEXTS), calls, draw(st.none() | TEXTS)))
        messages += [Message.tool(draw(TEXTS), call, is_error=draw(st.booleans())) for call in calls]
    return [*messages, Message.assistant(draw(TEXTS), reasoning=draw(st.none() | TEXTS))]


@every_form
@settings(max_examples=FOR_EACH)
@given(messages=conversations())
def test_any_conversation_is_the_same_in_every_shape(name: str, messages: list[Message]) -> None:
    shape = shape_of(name)
    assert convert_recording(json.loads(json.dumps(shape.write(messages)))) == shape.expected(messages)


def test_what_programs_write_beside_the_standard_is_read() -> None:
    call = ToolCall("c", "look", {"q": "x"})
    flat = {"id": "c", "name": "look", "arguments": '{"q": "x"}', "type": "function"}
    assert convert_recording(
        [
            {"role": "human", "content": "?"},
            {"role": "ai", "content": "", "tool_calls": [flat], "created_at": 1},
            {"role": "tool", "content": {"city": "Lima"}, "tool_call_id": "c", "tool_call_error": True},
        ]
    ) == [Message.user("?"), Message.assistant("", [call]), Message.tool('{"city": "Lima"}', call, is_error=True)]
    constructed = langchain_constructors([Message.assistant("", [call])])
    found = {"type": "tool", "content": [{"url": "u", "title": "Lima"}, "and"], "tool_call_id": "c"}
    assert convert_recording({"messages": [{"role": "user", "content": "?"}, *constructed, found]}) == [
        Message.user("?"),
        Message.assistant("", [call]),
        Message.tool('{"url": "u", "title": "Lima"}\nand', call),
    ]
    part = {"type": "tool_call", "id": ["run", "c"], "name": "look", "arguments": {"q": "x"}}
    answered = {"type": "tool_call_response", "id": ["run", "c"], "result": "Lima"}
    assert convert_recording([{"role": "assistant", "parts": [part]}, {"role": "tool", "parts": [answered]}]) == [
        Message.assistant("", [call]),
        Message.tool("Lima", call),
    ]


WORDS = """role type content parts text messages input output choices message data kwargs id raw_item source tool_calls
toolUse toolResult tool_use_id sessionId attributes gen_ai.input.messages events candidates new_items agent_states
values function name arguments result error attachments payload item status author part_kind kind info history
trajectory submission exit_status trajectory_format stats response toolCalls thoughts timestamp $set $rewindTo extra
delta messageId toolCallId toolCallName parentMessageId threadId args state toolInvocation llm.input_messages
gen_ai.prompt.0.role gen_ai.completion.0.content llm input_messages output_messages actions num_turns tool_id"""
VALUES = """user assistant system tool ai human text tool_use tool_result TextMessage ThoughtEvent message
tool_call_item reasoning tool_call_response x session_meta response_item event_msg compacted thread_rolled_back
item.completed turn.started command_execution agent_message gemini init result error request response tool-call
tool-return text-content user-prompt exit RUN_STARTED MESSAGES_SNAPSHOT TEXT_MESSAGE_CONTENT TEXT_MESSAGE_START
TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_RESULT REASONING_MESSAGE_CHUNK step-start dynamic-tool output-available
mini-swe-agent-1"""
KEYS = st.sampled_from(WORDS.split())
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(VALUES.split())
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


@given(document=ANYTHING)
def test_any_json_is_read_or_refused(document: Any) -> None:
    with suppress(TraceFormatError):
        find_end(document)
        is_limit_reached(document)
    try:
        messages = convert_recording(document)
    except TraceFormatError:
        return
    assert all(isinstance(message, Message) for message in messages)
    is_conversation(document)
    for text in (json.dumps(document), str(document)):
        with suppress(TraceFormatError):
            parse_conversation(text)


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path to every value inside of `value`."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([place] if place else []), *(one for key, held in inner for one in places(held, (*place, key)))]


@pytest.mark.parametrize(
    "write",
    [shape.write for shape in (*SHAPES.values(), *MORE_FORMS.values())] + [write for write, _ in ENVELOPED.values()],
    ids=[*SHAPES, *MORE_FORMS, *ENVELOPED],
)
@settings(max_examples=FOR_EACH)
@given(data=st.data())
def test_a_damaged_conversation_is_read_or_refused(write: Write, data: st.DataObject) -> None:
    recording = json.loads(json.dumps(write(CONVERSATION)))
    for _ in range(data.draw(st.integers(1, 3))):
        if not recording:
            break  # its only value was deleted
        *way, last = data.draw(st.sampled_from(places(recording)))
        holder = recording
        for key in way:
            holder = holder[key]
        if data.draw(st.booleans()) and isinstance(holder, dict):
            del holder[last]
        else:
            holder[last] = data.draw(ANYTHING)
    with suppress(TraceFormatError):
        assert all(isinstance(message, Message) for message in convert_recording(recording))
    with suppress(TraceFormatError):
        find_end(recording)
        is_limit_reached(recording)
    is_conversation(recording)


def test_a_transcript_begins_with_a_role() -> None:
    with pytest.raises(TraceFormatError, match="does not begin with a role"):
        read_transcript("It is Lima.\nUser: x\nAssistant: y")
