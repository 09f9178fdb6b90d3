"""The state of an answer or item, the services provided by its run, and a stage's model calls.

Stages use these through `VerificationContext`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import ItemId
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
from karenina_core.namespaces import owned_fields

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.sections import KnownValue, RevisionRecord, StageRecord, VetoRecord
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import SourceFolder
    from karenina_core.plugins import Plugins


AtEnd = Callable[[], Awaitable[None] | None]

Ask = Callable[[], str | Awaitable[str]]
"""A function that makes a single request to a service. It may block, or return an awaitable."""


@dataclass(frozen=True, kw_only=True)
class StageAccess:
    """The settings that a stage may use, and the artifacts that it may read, write and revise.

    `other_settings` contains settings that the stage reads but does not own, with the values to use if the owner is not
    installed.
    """

    name: str
    distribution: str
    usage_key: str
    scope: str
    settings: type[BaseModel] | None
    question_settings: type[BaseModel] | None
    other_settings: Mapping[str, Any]
    reads: frozenset[str]
    writes: frozenset[str]
    revises: frozenset[str]
    offers: Mapping[str, object]
    reads_everything: bool

    @cached_property
    def readable(self) -> frozenset[str]:
        """The names of the settings that the stage may read: the core's, its own, and those in `other_settings`."""
        from karenina_core.config import CoreSettings

        return frozenset({*CoreSettings.model_fields, *self.other_settings, *owned_fields([self.settings])})


class PortProvider(Protocol):
    """The services that a run provides to its stages. The run limits, retries and records every call."""

    @property
    def plugins(self) -> Plugins:
        """The plugins used in the run."""

    def call(self, request: ModelRequest) -> Coroutine[Any, Any, Any]:
        """Return an awaitable for the reply to `request`. Awaiting it may raise `PortError`."""

    def answers_through_agent(self, model: ModelConfig, info: CallInfo) -> bool:
        """Return whether the adapter requires this answer to come through the agent port."""

    def recorded(self, model: ModelConfig) -> bool:
        """Return whether the model's answers were recorded earlier."""

    def instructions(self, task: str, interface: str) -> Sequence[str]:
        """Return the instructions that plugins add to the prompt of `task`."""

    async def consult(self, service: str, query: str, ask: Ask, info: CallInfo, seconds: float | None = None) -> str:
        """Return a service's reply to `query`, either from the journal or by calling `ask`.

        `seconds` has the same meaning as in `VerificationContext.consult`. Raises `PortError` if the call fails.
        """

    def enter_workspace(self, workspace: Path) -> None:
        """Record that an item has agents working in the workspace."""

    async def leave_workspace(self, workspace: Path) -> None:
        """Record that an item no longer has agents working in the workspace.

        When the last item leaves, the processes started there are terminated.
        """


@dataclass(slots=True)
class Item:
    """The question, models and replicate number of a state. An answer has no judge (`parsing_model`) yet.

    `order` is the item's position in the run. Calls of earlier items are sent first. `sources` are the folders that
    stages have declared to affect the result.
    """

    question: Question
    answering_model: ModelConfig
    parsing_model: ModelConfig | None
    replicate: int
    config: VerificationConfig
    ports: PortProvider
    trust: Trust
    run_name: str | None = None
    order: int = 0
    sources: tuple[SourceFolder, ...] = ()

    @property
    def key(self) -> ItemId:
        """The item's key in its run. It equals `VerificationResult.item`."""
        judge = self.parsing_model.id if self.parsing_model is not None else None
        return ItemId.of(self.question.id, self.answering_model.id, judge, self.replicate)


class ItemError(NamedTuple):
    """The error that ended an item."""

    stage: str
    message: str
    outcome: Outcome


@dataclass(slots=True)
class State:
    """The state of an answer, or of an item whose `parent` is the state of its answer.

    `started` is the time at which the work began. It is moved forward by any time spent waiting. `deadline` is the time
    at which it must be done, moved forward by the time that other items took while this one was ready.
    """

    item: Item
    parent: State | None = None
    artifacts: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: dict[str, KnownValue] = field(default_factory=dict)
    vetoes: list[VetoRecord] = field(default_factory=list)
    revisions: list[RevisionRecord] = field(default_factory=list)
    records: list[StageRecord] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    at_end: list[AtEnd] = field(default_factory=list)
    workspaces: set[Path] = field(default_factory=set)
    error: ItemError | None = None
    started: float = 0.0
    deadline: float = float("inf")

    def enter_workspace(self, folder: Path) -> None:
        """Record that agents are working in the folder, until `leave_workspace` is called."""
        if folder not in self.workspaces:
            self.workspaces.add(folder)
            self.item.ports.enter_workspace(folder)

    async def leave_workspace(self, folder: Path) -> None:
        """End the processes that agents started in the folder, unless other items are using it."""
        if folder in self.workspaces:
            self.workspaces.remove(folder)
            await self.item.ports.leave_workspace(folder)

    def has(self, name: str) -> bool:
        """Return whether the artifact exists in this state or in the state of the answer."""
        return name in self.artifacts or (self.parent is not None and name in self.parent.artifacts)

    def read(self, name: str) -> Any:
        """Return the value of an artifact, or None if the artifact does not exist."""
        if name in self.artifacts:
            return self.artifacts[name]
        return self.parent.artifacts.get(name) if self.parent is not None else None

    def all_values(self) -> dict[str, KnownValue]:
        """Return the known values offered for the answer and for the item."""
        return {**(self.parent.values if self.parent is not None else {}), **self.values}

    def first_error(self) -> ItemError | None:
        """Return the error that ended the answer or the item, or None. An error of the answer takes precedence."""
        parent = self.parent
        return self.error if parent is None or parent.error is None else parent.error

    def all_vetoes(self) -> list[VetoRecord]:
        """Return all vetoes, those from answer-scope stages first."""
        return [*(self.parent.vetoes if self.parent is not None else ()), *self.vetoes]

    def all_revisions(self) -> list[RevisionRecord]:
        """Return all revisions, those from answer-scope stages first."""
        return [*(self.parent.revisions if self.parent is not None else ()), *self.revisions]


class StageCalls:
    """The calls that a stage makes for an item.

    `usage` is the total usage of all calls. `failed` is the number of calls that failed on every attempt. In a run that
    makes no calls, `no_recorded_reply` is the error of the first call without a recorded reply.
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
        """Information about the item, which calls include by default."""
        if self._info is None:
            item, planned = self._state.item, self._planned
            question, shared = item.question, planned.scope == "answer"
            about = (question.id, question.question, item.replicate, planned.usage_key, item.order)
            judge = "" if shared or item.parsing_model is None else item.parsing_model.id
            self._info = CallInfo(*about, CallNotes(), planned.name, shared, judge=judge, sources=item.sources)
        return self._info

    @property
    def notes(self) -> CallNotes | None:
        """The combined notes of all calls, or None if there were no calls."""
        return self._info.notes if self._info is not None else None

    async def call(
        self,
        model: ModelConfig,
        messages: Sequence[Message],
        info: CallInfo,
        schema: Mapping[str, Any] | None = None,
        options: AgentOptions | None = None,
    ) -> Any:
        """Make a call for the item, count it, and return the reply: of an agent with `options`, of a parser with a
        `schema`, otherwise of the plain model. If the agent has a workspace, `enter_workspace` is called first. Raises
        `PortError` if the call fails.
        """
        if options is not None and options.workspace is not None:
            self._state.enter_workspace(options.workspace)
        info = self._complete(info, messages)
        making = self._state.item.ports.call(ModelRequest(model, messages, info, schema, options))
        try:
            reply = await making
        except PortError as error:
            self.count_failure(error)
            for usage in (error.partial.usage if error.partial is not None else NO_USAGE, error.usage):
                if usage is not NO_USAGE:
                    self._count(usage, info.task)
            raise
        self._count(reply.usage, info.task)
        return reply

    def _complete(self, info: CallInfo, messages: Sequence[Message]) -> CallInfo:
        """Return `info`, or the item's if this is `NO_INFO`, with the stage's notes if it has none, and marked if one
        of the `messages` shows the ground truth.
        """
        info = self.info if info is NO_INFO else info
        if info.notes is None:
            info = replace(info, notes=self.info.notes)
        shows_truth = self.with_truth and any(message is shown for shown in self.with_truth for message in messages)
        return replace(info, shows_truth=True) if shows_truth else info

    def count_failure(self, error: PortError | None = None) -> None:
        """Count a call that failed on every attempt. `no_recorded_reply` keeps the first `NoRecordedReply`."""
        self.failed += 1
        if isinstance(error, NoRecordedReply) and self.no_recorded_reply is None:
            self.no_recorded_reply = error

    def _count(self, usage: Usage, task: str) -> None:
        """Add a call's usage to the stage's total, and to the state's total for `task` (the `usage_key`)."""
        self.usage = self.usage + usage
        totals, key = self._state.usage, task or self._planned.usage_key
        totals[key] = totals.get(key, NO_USAGE) + usage


class StagePort:
    """All three ports of a model, for a stage's calls."""

    __slots__ = ("_calls", "_model")

    def __init__(self, calls: StageCalls, model: ModelConfig) -> None:
        self._calls = calls
        self._model = model

    async def aclose(self) -> None:
        """Do nothing, because the run closes its ports."""

    def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> Coroutine[Any, Any, LLMReply]:
        """Return an awaitable for the reply to `messages`. Awaiting it may raise `PortError`. `info` defaults to the
        item's own.
        """
        return self._calls.call(self._model, messages, info)

    def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> Coroutine[Any, Any, ParserReply]:
        """Return an awaitable for a JSON reply that should match `schema`. Awaiting it may raise `PortError`. `info`
        defaults to the item's own.
        """
        return self._calls.call(self._model, messages, info, schema)

    def run(
        self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO
    ) -> Coroutine[Any, Any, AgentReply]:
        """Return an awaitable for an agent's conversation. Awaiting it may raise `PortError`. `info` defaults to the
        item's own.
        """
        return self._calls.call(self._model, messages, info, options=options)
