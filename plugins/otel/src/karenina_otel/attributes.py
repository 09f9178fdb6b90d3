"""The attributes of spans and evaluation events, as defined by the semantic conventions.

A call's span gets attributes at its start and at its end, with messages as JSON. A result has one evaluation for the
verdict, and one for each trait score.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from karenina_core.data.outcome import Outcome
from karenina_core.models.ports import AgentReply, LLMReply, Message, ParserReply, Turn
from karenina_core.text import replace_surrogates
from karenina_otel import conventions as names
from karenina_otel.conventions import (
    ERROR_TYPE,
    EVALUATION_EXPLANATION,
    EVALUATION_LABEL,
    EVALUATION_NAME,
    EVALUATION_VALUE,
    Value,
    clean_attributes,
    server_of,
)

if TYPE_CHECKING:
    from karenina_core import VerificationResult
    from karenina_core.data.sections import VerificationResultRubric
    from karenina_engine.calls.call import Call, CallOutcome
    from karenina_engine.calls.reply_json import Reply


CORRECTNESS: Final = "correctness"
"""The name of a verdict's evaluation. Its value is 1, 0 or missing, and its label is the outcome."""


def input_messages(messages: Sequence[Message]) -> str:
    """Return the messages sent to a model as JSON, in the format of the conventions."""
    return _json([_message(message) for message in messages])


def output_messages(reply: Reply) -> str:
    """Return a model's reply, or an agent's whole trace, as JSON."""
    replied = [_message(message) for message in _reply_messages(reply)]
    reason = {"tool_calls": "tool_call", "other": "stop"}.get(reply.finish_reason, reply.finish_reason)
    return _json([*replied[:-1], *({**last, "finish_reason": reason} for last in replied[-1:])])


def _reply_messages(reply: Reply) -> Sequence[Message]:
    """Return the messages in a reply. An agent's reply contains its whole trace. The message of a parser reply has no
    reasoning.
    """
    if isinstance(reply, AgentReply):
        return reply.trace
    if isinstance(reply, Turn):
        return [reply.message]
    if isinstance(reply, LLMReply):
        return [Message.assistant(reply.text, reasoning=reply.reasoning)]
    assert isinstance(reply, ParserReply)
    return [Message.assistant(reply.text)]


def _message(message: Message) -> dict[str, Any]:
    """Convert a message to the format of the conventions. Empty text and reasoning are omitted."""
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
    """Encode any value as JSON. What JSON cannot express becomes a string, and unpaired surrogates are replaced."""
    return replace_surrogates(json.dumps(value, ensure_ascii=False, default=str))


def start_attributes(call: Call, *, content: bool) -> tuple[str, dict[str, Value]]:
    """Return the name of a call's span and the attributes at its start, with the messages if `content` is set.

    The operation is `invoke_agent` for an agent's whole run and `execute_tool` for a call to a service. In all other
    cases, it is `chat`, including an agent's individual turns.
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
    """Return the attributes at the end of a call, including its error or interruption and, if `content` is set, its
    reply. If an agent's turns are separate calls, the span of its run has no token counts, so that tokens are only
    counted once.
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


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A verdict or a score. If an error prevented it, `error` is the type of that error, otherwise None."""

    name: str
    value: float | None = None
    label: str | None = None
    explanation: str | None = None
    error: str | None = None

    def attributes(self) -> dict[str, Value]:
        """Return the attributes of the evaluation event, as defined by the conventions."""
        return clean_attributes(
            {
                EVALUATION_NAME: self.name,
                EVALUATION_VALUE: self.value,
                EVALUATION_LABEL: self.label,
                EVALUATION_EXPLANATION: self.explanation,
                ERROR_TYPE: self.error,
            }
        )


def evaluations(result: VerificationResult, *, content: bool) -> Iterator[Evaluation]:
    """Yield the evaluations of a result: its verdict, unless it was only scored, and its trait scores. Without
    `content`, the explanation of a verdict only names stages, fields and traits, and scores have none.
    """
    if result.outcome is not Outcome.SCORED:
        verdict = result.template.verify_result if result.outcome.judged else None
        yield Evaluation(
            CORRECTNESS,
            value=None if verdict is None else float(verdict),
            label=result.outcome.value,
            explanation=result.why() if content else _why_without_content(result),
            error=None if result.outcome.judged else result.outcome.value,
        )
    if result.rubric is not None:
        labels = {**result.rubric.labels(), **_from_extensions(result, "trait_labels")}
        deep = (result.deep_judgment_rubric and result.deep_judgment_rubric.rubric_trait_reasoning) or {}
        reasons = {
            **deep,
            **result.rubric.reasons(),
            **_from_extensions(result, "trait_reasoning"),
            **(result.rubric.trait_errors or {}),
        }
        yield from _scores(result.rubric, labels, reasons if content else {})


def _why_without_content(result: VerificationResult) -> str:
    """Return an explanation of an outcome with only the names of stages, fields and traits, without any quotations."""
    failed = [record.name for record in result.stages if record.status == "failed"]
    if result.metadata.error:
        return f"{', '.join(failed) or 'the item'} failed"
    if result.vetoes:
        return "; ".join(f"{veto.stage} vetoed" for veto in result.vetoes)
    if result.outcome is Outcome.UNDECIDED:
        return f"undecided: {', '.join(result.undecided_fields()) or 'verify()'}"
    if result.template.field_verification_error:
        return "verify() failed"
    if result.outcome is Outcome.RUBRIC_ERROR:
        names = ", ".join((result.rubric and result.rubric.trait_errors) or ()) or "some"
        return f"traits that could not be scored: {names}"
    return result.why()


def _from_extensions(result: VerificationResult, field: str) -> dict[str, str]:
    """Return the entries of all extension fields whose names end in `field`, keyed by trait name."""
    return {
        str(trait): str(text)
        for section in result.extensions.values()
        for name, entries in section.items()
        if name.endswith(field) and isinstance(entries, Mapping)
        for trait, text in entries.items()
    }


def _scores(
    rubric: VerificationResultRubric, labels: Mapping[str, str], reasons: Mapping[str, str]
) -> Iterator[Evaluation]:
    """Yield an evaluation for each trait, or for each metric of a metric trait, with its label and reason from `labels`
    and `reasons`, by trait. Traits without a score have no value. If a trait could not be scored, the evaluation has
    the error `trait_error`.
    """
    errors = rubric.trait_errors or {}
    scores = rubric.get_all_trait_scores()
    metrics = rubric.metric_trait_scores or {}
    for name in dict.fromkeys((*scores, *errors)):
        score, reason = scores.get(name), reasons.get(name)
        if name in metrics and isinstance(score, dict):
            for metric, value in score.items():
                yield Evaluation(f"{name}.{metric}", float(value), explanation=reason)
            continue
        value, label = _value(score)
        failed = score is None and name in errors
        yield Evaluation(name, value, labels.get(name, label), reason, "trait_error" if failed else None)


def _value(score: Any) -> tuple[float | None, str | None]:
    """Return a score's number and label. For anything other than a number or boolean, both are None."""
    if isinstance(score, bool):
        return float(score), str(score).lower()
    if isinstance(score, (int, float)):
        return float(score), None
    return None, None
