"""The state of an answer or an item, and the services of its run. Stages access both through `VerificationContext`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import ItemId
from karenina_core.models.ports import CallInfo, ModelRequest, Usage
from karenina_core.namespaces import owned_fields

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.sections import RevisionRecord, StageRecord, VetoRecord
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.source_folder import SourceFolder
    from karenina_core.plugins import Plugins

AtEnd = Callable[[], Awaitable[None] | None]

Ask = Callable[[], str | Awaitable[str]]
"""A function that queries a service once. It may block, or return an awaitable."""


@dataclass(frozen=True, kw_only=True)
class StageAccess:
    """What a planned stage may access through its context: settings, and artifacts to read, write and revise.

    `other_settings` are the settings of other owners that it reads, with the values to use without the owner.
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
    reads_everything: bool

    def reads_setting(self, name: str) -> bool:
        """Return whether the stage may read a setting: the core's, its own, or one of `other_settings`."""
        return name in self._readable

    @cached_property
    def _readable(self) -> frozenset[str]:
        from karenina_core.config import CoreSettings

        return frozenset({*CoreSettings.model_fields, *self.other_settings, *owned_fields([self.settings])})


class PortProvider(Protocol):
    """The services of a run for its stages. The run limits, retries and records every call."""

    @property
    def plugins(self) -> Plugins:
        """The plugins of the run."""

    def call(self, request: ModelRequest) -> Coroutine[Any, Any, Any]:
        """Return the reply of a model to a request. Awaiting it may raise `PortError`."""

    def answers_through_agent(self, model: ModelConfig, info: CallInfo) -> bool:
        """Return whether this answer must come through the agent port, as the model's adapter declares."""

    def recorded(self, model: ModelConfig) -> bool:
        """Return whether the model's answers were recorded earlier."""

    def instructions(self, task: str, interface: str) -> Sequence[str]:
        """Return the instructions that plugins add to the prompt of `task` for models of `interface`."""

    async def consult(self, service: str, query: str, ask: Ask, info: CallInfo) -> str:
        """Return the reply of a service to `query`, stored earlier or requested by `ask`. Raises `PortError`."""

    def enter_workspace(self, workspace: Path) -> None:
        """Register that an item has agents working in the workspace."""

    async def leave_workspace(self, workspace: Path) -> None:
        """Register that an item has no more agents there. After the last item, processes started there are ended."""


@dataclass(slots=True)
class Item:
    """The question, models and replicate of a state. An answer has no judge (`parsing_model`) yet.

    `order` is the place in the run: calls of earlier items go first. `sources` are the folders on which the result
    depends, as the stages name them.
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
        """The item's key in its run. Equal to `VerificationResult.item`."""
        judge = self.parsing_model.id if self.parsing_model is not None else None
        return ItemId.of(self.question.id, self.answering_model.id, judge, self.replicate)


@dataclass(frozen=True, slots=True)
class ItemError:
    """The error that ended an item."""

    stage: str
    message: str
    outcome: Outcome


@dataclass(slots=True)
class State:
    """The state of one answer, or of one item, whose `parent` is the state of its answer.

    `started` is the time from which seconds of work are counted; waiting moves it forward.
    """

    item: Item
    parent: State | None = None
    artifacts: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    vetoes: list[VetoRecord] = field(default_factory=list)
    revisions: list[RevisionRecord] = field(default_factory=list)
    records: list[StageRecord] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    at_end: list[AtEnd] = field(default_factory=list)
    workspaces: set[Path] = field(default_factory=set)
    error: ItemError | None = None
    started: float = 0.0
    deadline: float | None = None

    def enter_workspace(self, folder: Path) -> None:
        """Register that agents work in the folder, until `leave_workspace`."""
        if folder not in self.workspaces:
            self.workspaces.add(folder)
            self.item.ports.enter_workspace(folder)

    async def leave_workspace(self, folder: Path) -> None:
        """End processes started for agents in the folder, unless other items work there."""
        if folder in self.workspaces:
            self.workspaces.remove(folder)
            await self.item.ports.leave_workspace(folder)

    def has(self, name: str) -> bool:
        """Return whether the artifact exists in this state or in that of the answer."""
        return name in self.artifacts or (self.parent is not None and name in self.parent.artifacts)

    def read(self, name: str) -> Any:
        """Return the artifact's value; None if it does not exist."""
        if name in self.artifacts:
            return self.artifacts[name]
        return self.parent.artifacts.get(name) if self.parent is not None else None

    def first_error(self) -> ItemError | None:
        """Return the error that ended the answer or, if there is none, the item."""
        parent = self.parent
        return self.error if parent is None or parent.error is None else parent.error

    def all_vetoes(self) -> list[VetoRecord]:
        """Return the vetoes of the answer and of the item, in the order in which they were raised."""
        return [*(self.parent.vetoes if self.parent is not None else ()), *self.vetoes]

    def all_revisions(self) -> list[RevisionRecord]:
        """Return the revisions of the answer and of the item, in the order in which they were made."""
        return [*(self.parent.revisions if self.parent is not None else ()), *self.revisions]
