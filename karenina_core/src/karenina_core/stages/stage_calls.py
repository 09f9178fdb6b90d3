"""The model calls of one stage for one item: each carries the item's information, and its usage is counted."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from karenina_core.models.ports import (
    NO_INFO,
    NO_USAGE,
    AgentOptions,
    AgentReply,
    CallInfo,
    CallNotes,
    LLMReply,
    Message,
    ModelRequest,
    NoRecordedReply,
    ParserReply,
    PortError,
    Usage,
)

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.stages.state import StageAccess, State


class StageCalls:
    """The calls of one stage for one item: `usage` is their sum, `failed` the number that failed on every attempt.

    In a run that makes no calls, `no_recorded_reply` is the error of the first call without a recorded reply.
    """

    __slots__ = ("_info", "_planned", "_state", "failed", "no_recorded_reply", "usage", "with_truth")

    def __init__(self, state: State, planned: StageAccess) -> None:
        self._state = state
        self._planned = planned
        self._info: CallInfo | None = None
        self.with_truth: list[Message] = []
        """The messages that show ground truth by design."""
        self.usage = NO_USAGE
        self.failed = 0
        self.no_recorded_reply: NoRecordedReply | None = None

    @property
    def info(self) -> CallInfo:
        """The information on the item that calls carry by default."""
        if self._info is None:
            item, planned = self._state.item, self._planned
            self._info = CallInfo(
                item.question.id,
                item.question.question,
                item.replicate,
                planned.usage_key,
                item.order,
                CallNotes(),
                planned.name,
                shared := planned.scope == "answer",
                judge="" if shared or item.parsing_model is None else item.parsing_model.id,
                sources=item.sources,
            )
        return self._info

    @property
    def notes(self) -> CallNotes | None:
        """The notes of all calls; None if there were none."""
        return self._info.notes if self._info is not None else None

    async def call(self, request: ModelRequest) -> Any:
        """Make a call for the item, and count it and its usage. Raises `PortError`."""
        if request.options is not None and request.options.workspace is not None:
            self._state.enter_workspace(request.options.workspace)
        making = self._state.item.ports.call(replace(request, info=self._complete(request)))
        try:
            reply = await making
        except PortError as error:
            self.count_failure(error)
            for usage in (error.partial.usage if error.partial is not None else NO_USAGE, error.usage):
                if usage is not NO_USAGE:
                    self._count(usage)
            raise
        self._count(reply.usage)
        return reply

    def _complete(self, request: ModelRequest) -> CallInfo:
        """Return the info for a call: the request's own or the item's, completed with the stage's notes."""
        info = self.info if request.info is NO_INFO else request.info
        if info.notes is None:
            info = replace(info, notes=self.info.notes)
        shows_truth = any(message is shown for shown in self.with_truth for message in request.messages)
        return replace(info, shows_truth=True) if shows_truth else info

    def count_failure(self, error: PortError | None = None) -> None:
        """Count a call that failed on every attempt."""
        self.failed += 1
        if isinstance(error, NoRecordedReply) and self.no_recorded_reply is None:
            self.no_recorded_reply = error

    def _count(self, usage: Usage) -> None:
        """Add a call's usage to that of the stage, and to that of the state under the stage's `usage_key`."""
        self.usage = self.usage + usage
        totals, key = self._state.usage, self._planned.usage_key
        totals[key] = totals.get(key, NO_USAGE) + usage


class StagePort:
    """All three ports of a model, through which a stage calls it."""

    __slots__ = ("_calls", "_model")

    def __init__(self, calls: StageCalls, model: ModelConfig) -> None:
        self._calls = calls
        self._model = model

    async def aclose(self) -> None:
        """Do nothing: the run closes its ports."""

    def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> Coroutine[Any, Any, LLMReply]:
        """Return the model's reply to `messages`. Awaiting it raises `PortError`."""
        return self._calls.call(ModelRequest(self._model, messages, info))

    def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> Coroutine[Any, Any, ParserReply]:
        """Return the model's JSON for `schema`. Awaiting it raises `PortError`."""
        return self._calls.call(ModelRequest(self._model, messages, info, schema))

    def run(
        self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO
    ) -> Coroutine[Any, Any, AgentReply]:
        """Return the conversation of an agent. Awaiting it raises `PortError`."""
        return self._calls.call(ModelRequest(self._model, messages, info, options=options))
