"""What is told of one call of a model, before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_otel import conventions as named
from karenina_otel.conventions import Value, plain, server_of
from karenina_otel.messages import input_messages, output_messages

if TYPE_CHECKING:
    from karenina_engine.calls.call import Call, CallOutcome


def asked(call: Call, *, content: bool) -> tuple[str, dict[str, Value]]:
    """The name and the first attributes of the span of a call.

    A run of an agent is `invoke_agent`, a service that a stage consults `execute_tool`, everything else `chat`, an
    agent's single turns too.
    """
    model, info = call.endpoint.model, call.info
    place: dict[str, Value | None] = {
        named.STAGE: info.stage or None,
        "karenina.task": info.task or None,
        named.QUESTION: info.question_id or None,
        named.REPLICATE: info.replicate,
    }
    if not call.is_model_call:
        return f"execute_tool {model.id}", plain({named.OPERATION: "execute_tool", named.TOOL: model.id, **place})
    provider, server = server_of(model, call.endpoint.spec)
    operation = "invoke_agent" if call.endpoint.port == "agent" else "chat"
    attributes: dict[str, Value | None] = {
        named.OPERATION: operation,
        named.PROVIDER: provider,
        named.REQUEST_MODEL: model.model_name,
        named.REQUEST_TEMPERATURE: model.temperature,
        named.REQUEST_MAX_TOKENS: model.max_tokens,
        named.OUTPUT_TYPE: "json" if call.endpoint.port == "parser" else None,
        **place,
        named.INPUT_MESSAGES: input_messages(call.messages) if content else None,
        **server,
    }
    return (operation if operation == "invoke_agent" else f"{operation} {model.model_name}"), plain(attributes)


def became(call: Call, made: CallOutcome, *, content: bool) -> dict[str, Value]:
    """The attributes that a call has when it has ended.

    Tokens stand once: at an agent's turns where those are calls of their own, and not at the whole of them too.
    """
    notes, reply, error = made.notes, made.reply, made.error
    attributes: dict[str, Value | None] = {
        "karenina.call.retries": sum(notes.retries.values()),
        "karenina.call.retry_wait": notes.waited or None,
        "karenina.call.request_time": notes.seconds or None,
        **{f"karenina.call.retries.{category}": times for category, times in notes.retries.items()},
    }
    if error is not None:
        attributes[named.ERROR_TYPE] = str(error.status) if error.status is not None else error.category.value
    if reply is None:
        if error is None:
            attributes[named.INTERRUPTED] = True
        return plain(attributes)
    if not call.is_model_call:
        return plain(attributes)
    usage = reply.usage
    attributes[named.RESPONSE_MODEL] = reply.model
    attributes[named.FINISH_REASONS] = [reply.finish_reason]
    if usage.total_tokens and not call.composite:
        attributes[named.INPUT_TOKENS] = usage.input_tokens
        attributes[named.OUTPUT_TOKENS] = usage.output_tokens
        attributes[named.CACHE_READ_TOKENS] = usage.cached_tokens or None
        attributes[named.CACHE_CREATION_TOKENS] = usage.cache_write_tokens or None
        attributes[named.REASONING_TOKENS] = usage.reasoning_tokens or None
    if content:
        attributes[named.OUTPUT_MESSAGES] = output_messages(reply)
    return plain(attributes)
