"""Ports that return recordings."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from karenina_core.models.ports import NO_INFO, AgentReply, ErrorCategory, LLMReply, Message, PortError, Usage
from karenina_manual.recording_index import STOPPED
from karenina_manual.recordings import recordings_of
from karenina_toolkit.traces import final_ai_message, validate_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentOptions, CallInfo
    from karenina_manual.recording_index import Answer
    from karenina_manual.recordings import Recordings

logger = logging.getLogger("karenina")
_NO_CALLS = Usage()


class RecordedLLM:
    """The LLM port. It returns recorded text, or the final answer of a recorded conversation.

    No calls or tokens are counted.
    """

    def __init__(self, model: ModelConfig) -> None:
        self._model = model
        self._recordings = recordings_of(model)

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Return the recorded answer to the question in `info`. `messages` are ignored, but a warning is logged if they
        have other attachments than the recording. Raises a permanent `PortError` if there is no recording, or if it
        does not contain an answer.

        The answer may be empty if a conversation stopped early, for example at a token limit.
        """
        answer = _find_answer(self._model, self._recordings, info, messages)
        recorded, end = answer.said, (answer.finish_reason, answer.server_reason)
        if isinstance(recorded, str):
            return LLMReply(recorded, _NO_CALLS)
        final = final_ai_message(recorded)
        last = recorded[-1] if recorded else Message.assistant()
        if final is None and (last.role != "assistant" or last.tool_calls or end[0] not in STOPPED):
            raise _no_answer_error(self._model, info, str(validate_trace(recorded).error))
        return LLMReply(
            final or "", _NO_CALLS, end[0], None, last.reasoning, *(end[1], last.notes, answer.conversation)
        )

    async def aclose(self) -> None:
        """Do nothing, because no connection is open."""


class RecordedAgent:
    """The agent port. It returns a recorded conversation, or recorded text as a single message, with its patch."""

    def __init__(self, model: ModelConfig) -> None:
        self._model = model
        self._recordings = recordings_of(model)

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Return the recording for the question in `info`, starting with the first assistant message. `messages` and
        limits are ignored, but a warning is logged if the messages have other attachments than the recording. Raises a
        permanent `PortError` if there is no recording, or if it contains no assistant message.
        """
        return find_reply(self._model, self._recordings, info, messages)

    async def aclose(self) -> None:
        """Do nothing, because no connection is open."""


def find_reply(
    model: ModelConfig, recordings: Recordings, info: CallInfo, messages: Sequence[Message] = ()
) -> AgentReply:
    """Return the recording for the question in `info`, starting with the first message that is not the system's or the
    user's. Raises a permanent `PortError` if there is no recording or such a message, or if the recorded reply failed.
    A warning is logged if it was about other attachments than those of `messages`.
    """
    answer = _find_answer(model, recordings, info, messages)
    recorded, work = answer.said, None if answer.patch is None else {"diff": answer.patch}
    if isinstance(recorded, str):
        return AgentReply((Message.assistant(recorded),), _NO_CALLS, recorded=work)
    for start, message in enumerate(recorded):
        if message.role not in ("system", "user"):
            return AgentReply(
                *(recorded[start:], _NO_CALLS, answer.limit_reached, answer.finish_reason),
                server_reason=answer.server_reason,
                recorded=work,
                conversation=answer.conversation,
            )
    raise _no_answer_error(model, info, "the conversation contains no assistant message")


def _find_answer(model: ModelConfig, recordings: Recordings, info: CallInfo, messages: Sequence[Message]) -> Answer:
    """Return the recording for the question in `info`. Logs a warning if `messages` have other attachments than were
    recorded. Raises a permanent `PortError` if there is none, or if the recorded reply failed. A reply that a token
    limit cut off is accepted.
    """
    answer = recordings.find(info)
    if answer.digests is not None:
        sent = next((message.attachments for message in messages if message.attachments), ())
        digests = tuple(file.sha256 for file in sent)
        if all(digests) and digests != answer.digests:
            logger.warning(
                "question %r: the recorded answer is about other attachments (sha256 %s, now %s); record it again, or "
                "restore the files",
                *(info.question_id, _shorten(answer.digests), _shorten(digests)),
            )
    if answer.finish_reason == "failed":
        raise _no_answer_error(model, info, f"the reply broke off (finish reason {answer.server_reason or 'error'!r})")
    return answer


def _shorten(digests: Sequence[str]) -> str:
    """Return the beginnings of digests, as text."""
    return ", ".join(digest[:12] for digest in digests) or "none"


def _no_answer_error(model: ModelConfig, info: CallInfo, why: str) -> PortError:
    """Return the error for a recording that contains no answer. `why` is the reason."""
    return PortError(
        f"{model.display_string}: the recording for question {info.question_id!r} is not an answer: {why}",
        category=ErrorCategory.PERMANENT,
    )
