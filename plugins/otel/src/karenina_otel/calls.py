"""The attributes of the span of a model call, at its start and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_otel import conventions as names
from karenina_otel.conventions import Value, clean_attributes, server_of
from karenina_otel.messages import input_messages, output_messages

if TYPE_CHECKING:
    from karenina_engine.calls.call import Call, CallOutcome


def start_attributes(call: Call, *, content: bool) -> tuple[str, dict[str, Value]]:
    """Return the name and the initial attributes of the span of a call.

    The operation of an agent's run is `invoke_agent`, that of a service that a stage calls `execute_tool`, and that of
    everything else, including the single turns of an agent, `chat`.
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

    Tokens are reported once: if the turns of an agent are calls of their own, the agent's whole run has none.
    """
    notes, reply, error = made.notes, made.reply, made.error
    attributes: dict[str, Value | None] = {
        "karenina.call.retries": sum(notes.retries.values()),
        "karenina.call.retry_wait": notes.waited or None,
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
