"""A single turn of the model under test: the messages to send, the call, and recording the reply.

`GenerateAnswer` takes one turn for a question. `Converse` of karenina-conversation takes one for each user message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.data.outcome import Outcome
from karenina_core.models.ports import (
    NO_USAGE,
    AgentOptions,
    AgentReply,
    ErrorCategory,
    FinishReason,
    LLMReply,
    Message,
    PortError,
    Usage,
)
from karenina_toolkit import traces
from karenina_toolkit.agent_work import AGENT_WORK
from karenina_toolkit.answer_values import note_uncounted_calls, offer_answer_values
from karenina_toolkit.answers.answer_keys import FEW_SHOT_GENERATION, GENERATION
from karenina_toolkit.answers.few_shot import examples_for, few_shot_settings, to_turns
from karenina_toolkit.structured.reply_checks import ends_empty
from karenina_toolkit.traces.reasoning import has_content

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.stages.context import VerificationContext

_STOPPED: Final = ("length", "content_filter")


@dataclass(slots=True)
class ModelTurn:
    """The model's messages in one turn.

    `trace` contains the messages of the model and its tools. A plain answer is a single message. `is_plain` states
    whether the turn was requested without an agent port. `error` is the reason why the call failed or the answer cannot
    be used. `conversation` is what a recording states about its conversation.
    """

    trace: tuple[Message, ...]
    finish_reason: FinishReason = "stop"
    limit_reached: bool = False
    is_plain: bool = False
    error: PortError | None = None
    usage: Usage = NO_USAGE
    conversation: Mapping[str, Any] | None = None

    @property
    def final(self) -> str | None:
        """The text of the last message, or None if the turn does not end in an answer. It is empty if a limit or the
        provider's content filter ended the turn before there was text.
        """
        if self.is_plain:
            return self.trace[0].content if self.trace else None
        last = traces.final_ai_message(self.trace)
        return "" if last is None and self.finish_reason in _STOPPED and self.trace else last


def first_messages(context: VerificationContext) -> list[Message]:
    """Return the messages at the start of a conversation: instructions, examples, and the question with its files."""
    few_shot = few_shot_settings(context.config)
    examples = examples_for(context.question, few_shot) if few_shot is not None else []
    task = FEW_SHOT_GENERATION if examples else GENERATION
    question, model = context.question, context.answering_model
    *system, asked = context.prompt(task, question.question, model, attachments=question.attachments)
    return [*system, *to_turns(examples), asked]


async def take_turn(
    context: VerificationContext, messages: Sequence[Message], session: Path | None = None
) -> ModelTurn:
    """Send `messages` to the model under test, and return its turn. If the call fails or the answer is empty, nothing
    is raised: the turn has an `error`, along with the model's messages before it. An empty answer is not an error if
    the provider stopped it, or if the agent has a workspace, which may contain the answer, or MCP servers, because slot
    4 checks the trace.

    Models with MCP servers or a workspace, agents and recorded conversations use the agent port. With
    `strip_reasoning`, reasoning at the start of an answer is separated from it. `session` identifies the tools that the
    turns of a conversation share.
    """
    model = context.answering_model
    work = context.find_artifact(AGENT_WORK)
    works = work is not None and work.by_model
    if not works and not context.answers_through_agent():
        try:
            return _plain_turn(context, await context.llm(model).invoke(messages))
        except PortError as error:
            return ModelTurn((), is_plain=True, error=error)
    folder = context.find_artifact(Keys.WORKSPACE_PATH)
    options = AgentOptions(
        model.agent_max_turns,
        model.agent_timeout,
        folder,
        timeout_setting=f"agent_timeout of the model {model.id!r}",
        session=session if folder is None else None,
        tools=work.tools(folder) if works and work is not None and folder is not None else (),
        recorder=work if works or context.answer_is_recorded() else None,
    )
    try:
        reply = await context.agent(model).run(messages, options)
    except PortError as error:
        return ModelTurn((), error=error) if error.partial is None else _agent_turn(context, error.partial, error)
    is_empty = folder is None and not model.mcp_urls_dict and _has_no_answer(reply)
    why = _explain_empty(context, reply)
    return _agent_turn(context, reply, PortError(why, category=ErrorCategory.EMPTY) if is_empty else None)


def _plain_turn(context: VerificationContext, reply: LLMReply) -> ModelTurn:
    """Convert a plain reply to a turn, with an `error` if it is empty, unless the model was stopped before it answered.
    With `strip_reasoning`, reasoning is separated from the answer.
    """
    text, reasoning = reply.text, reply.reasoning
    if context.setting("strip_reasoning"):
        thought, text = traces.split_reasoning(text, cut_off=reply.finish_reason == "length")
        reasoning = "\n\n".join(filter(None, (reasoning, thought)))
    error = None
    if reply.finish_reason not in _STOPPED and not has_content(reply.text):
        where = context.answering_model.display_string
        error = PortError(f"the answer from {where} is empty", category=ErrorCategory.EMPTY)
    message = Message("assistant", text, reasoning=reasoning or None, notes=tuple(reply.notes))
    end, about = reply.finish_reason, reply.conversation
    return ModelTurn((message,), end, is_plain=True, error=error, usage=reply.usage, conversation=about)


def _agent_turn(context: VerificationContext, reply: AgentReply, error: PortError | None) -> ModelTurn:
    """Convert an agent's reply to a turn. With `strip_reasoning`, reasoning is separated from the answers."""
    trace: Sequence[Message] = reply.trace
    if context.setting("strip_reasoning"):
        trace = traces.separate_reasoning(trace, cut_off=reply.finish_reason == "length")
    end, about = (reply.finish_reason, reply.limit_reached), reply.conversation
    return ModelTurn(tuple(trace), *end, error=error, usage=reply.usage, conversation=about)


def record_turns(
    context: VerificationContext,
    turns: Sequence[ModelTurn],
    said: Sequence[Message] = (),
    incomplete: str | None = None,
) -> None:
    """Set the artifacts and result fields for an answer that consists of `turns`, with the user's messages `said`
    between them. If the last turn has an error, it is raised after the messages before it are stored. If the provider
    stopped the answer and no abstention check follows, the item is vetoed. If only a part of a recording is used,
    `incomplete` is the reason.

    A single plain answer is stored unchanged. Anything else is stored as a trace.
    """
    last = turns[-1]
    servers = context.answering_model.mcp_urls_dict
    context.set_artifact(Keys.ANSWERING_MCP_SERVERS, sorted(servers) if servers else None)
    trace = list(turns[0].trace)
    for message, turn in zip(said, turns[1:], strict=True):
        trace += [message, *turn.trace]
    if context.question.attachments:
        described = [attachment.to_dict() for attachment in context.question.attachments]
        context.set_result_field("attachments", described)
    if trace or last.error is None:
        _record_trace(context, turns, trace)
    if last.error is not None:
        raise last.error
    if not context.answer_is_recorded():
        note_uncounted_calls(context, [turn.usage for turn in turns])
    offer_answer_values(context, [turn.usage for turn in turns], context.call_info.notes, incomplete)
    if context.get_artifact(Keys.RESPONSE_REFUSED) and not context.setting("abstention_enabled"):
        context.veto("the provider stopped the answer", Outcome.ABSTAINED)


def _record_trace(context: VerificationContext, turns: Sequence[ModelTurn], trace: list[Message]) -> None:
    """Set the artifacts and result fields for the model's messages: a single plain answer is stored as it is, and
    anything else as a trace.
    """
    last, is_plain = turns[-1], len(turns) == 1 and turns[0].is_plain
    if is_plain and trace[0].reasoning:
        context.set_result_field("reasoning", trace[0].reasoning)
    notes = [note for message in trace for note in message.notes]
    if notes:
        context.set_result_field("notes", notes)
    context.set_artifact(Keys.RAW_LLM_RESPONSE, trace[0].content if is_plain else traces.render_trace(trace))
    context.set_artifact(Keys.TRACE_MESSAGES, [] if is_plain else trace)
    context.set_artifact(Keys.FINAL_AI_MESSAGE, last.final)
    context.set_artifact(Keys.RECURSION_LIMIT_REACHED, any(turn.limit_reached for turn in turns))
    context.set_artifact(Keys.RESPONSE_TRUNCATED, any(turn.finish_reason == "length" for turn in turns))
    context.set_artifact(Keys.RESPONSE_REFUSED, last.finish_reason == "content_filter")
    plain = is_plain or all(turn.is_plain for turn in turns)
    context.set_artifact(Keys.AGENT_METRICS, None if plain else dict(traces.measure_trace(trace)))


def _has_no_answer(reply: AgentReply) -> bool:
    """Return whether an agent finished without an answer although nothing stopped it."""
    stopped = reply.limit_reached or reply.finish_reason in _STOPPED
    return not stopped and ends_empty(reply.trace)


def _explain_empty(context: VerificationContext, reply: AgentReply) -> str:
    """Explain why an agent's answer is empty, based on the notes in its last message, if there are any."""
    notes = reply.trace[-1].notes if reply.trace else ()
    return "; ".join(notes) or f"the answer from {context.answering_model.display_string} is empty"
