"""The attributes of a call's span, at its start and its end, and the call's messages as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from karenina_core.models.ports import AgentReply, LLMReply, Message, ParserReply, Turn
from karenina_core.text import replace_surrogates
from karenina_otel import conventions as names
from karenina_otel.conventions import Value, clean_attributes, server_of

if TYPE_CHECKING:
    from karenina_engine.calls.call import Call, CallOutcome
    from karenina_engine.calls.reply_json import Reply


def input_messages(messages: Sequence[Message]) -> str:
    """Return the messages sent to a model, as JSON in the format of the conventions."""
    return _json([_message(message) for message in messages])


def output_messages(reply: Reply) -> str:
    """Return a model's reply, or an agent's whole trace, as JSON in the format of the conventions."""
    replied = [_message(message) for message in _reply_messages(reply)]
    reason = {"tool_calls": "tool_call", "other": "stop"}.get(reply.finish_reason, reply.finish_reason)
    return _json([*replied[:-1], *({**last, "finish_reason": reason} for last in replied[-1:])])


def _reply_messages(reply: Reply) -> Sequence[Message]:
    if isinstance(reply, AgentReply):
        return reply.trace
    if isinstance(reply, Turn):
        return [reply.message]
    if isinstance(reply, LLMReply):
        return [Message.assistant(reply.text, reasoning=reply.reasoning)]
    assert isinstance(reply, ParserReply)
    return [Message.assistant(reply.text)]


def _message(message: Message) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if message.reasoning:
        parts.append({"type": "reasoning", "content": message.reasoning})
    if message.role == "tool":
        parts.append({"type": "tool_call_response", "id": message.tool_call_id, "response": message.content})
    elif message.content:
        parts.append({"type": "text", "content": message.content})
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": dict(call.arguments)}
        for call in message.tool_calls
    ]
    return {"role": message.role, "parts": parts}


def _json(value: Any) -> str:
    return replace_surrogates(json.dumps(value, ensure_ascii=False, default=str))


def start_attributes(call: Call, *, content: bool) -> tuple[str, dict[str, Value]]:
    """Return the name and the initial attributes of a call's span.

    The operation is `invoke_agent` for an agent's whole run, `execute_tool` for a call to a service, and `chat` for
    everything else, including an agent's single turns.
    """
    model, info = call.endpoint.model, call.info
    place: dict[str, Value | None] = {
        names.STAGE: info.stage or None,
        "karenina.task": info.task or None,
        names.QUESTION: info.question_id or None,
        names.REPLICATE: info.replicate,
    }
    if not call.is_model_call:
        return f"execute_tool {model.id}", clean_attributes(
            {names.OPERATION: "execute_tool", names.TOOL: model.id, **place}
        )
    provider, server = server_of(model, call.endpoint.spec)
    operation = "invoke_agent" if call.endpoint.port == "agent" else "chat"
    attributes: dict[str, Value | None] = {
        names.OPERATION: operation,
        names.PROVIDER: provider,
        names.REQUEST_MODEL: model.model_name,
        names.REQUEST_TEMPERATURE: model.temperature,
        names.REQUEST_MAX_TOKENS: model.max_tokens,
        names.OUTPUT_TYPE: "json" if call.endpoint.port == "parser" else None,
        **place,
        names.INPUT_MESSAGES: input_messages(call.messages) if content else None,
        **server,
    }
    return (operation if operation == "invoke_agent" else f"{operation} {model.model_name}"), clean_attributes(
        attributes
    )


def end_attributes(call: Call, made: CallOutcome, *, content: bool) -> dict[str, Value]:
    """Return the attributes of a call that has ended.

    Tokens are reported only once: if an agent's turns are separate calls, the span of the agent's run has no tokens.
    """
    notes, reply, error = made.notes, made.reply, made.error
    attributes: dict[str, Value | None] = {
        "karenina.call.retries": sum(notes.retries.values()),
        "karenina.call.retry_wait": notes.waited or None,
        "karenina.call.queue_time": notes.queued or None,
        "karenina.call.request_time": notes.seconds or None,
        **{f"karenina.call.retries.{category}": times for category, times in notes.retries.items()},
    }
    if error is not None:
        attributes[names.ERROR_TYPE] = str(error.status) if error.status is not None else error.category.value
    if reply is None:
        if error is None:
            attributes[names.INTERRUPTED] = True
        return clean_attributes(attributes)
    if not call.is_model_call:
        return clean_attributes(attributes)
    usage = reply.usage
    attributes[names.RESPONSE_MODEL] = reply.model
    attributes[names.FINISH_REASONS] = [reply.finish_reason]
    if usage.total_tokens and not call.composite:
        attributes[names.INPUT_TOKENS] = usage.input_tokens
        attributes[names.OUTPUT_TOKENS] = usage.output_tokens
        attributes[names.CACHE_READ_TOKENS] = usage.cached_tokens or None
        attributes[names.CACHE_CREATION_TOKENS] = usage.cache_write_tokens or None
        attributes[names.REASONING_TOKENS] = usage.reasoning_tokens or None
    if content:
        attributes[names.OUTPUT_MESSAGES] = output_messages(reply)
    return clean_attributes(attributes)
