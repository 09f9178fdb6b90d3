"""The facts about one answer and one item, and what an item needs from its run. Stages see them through a view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from karenina_core.data.outcome import Outcome
from karenina_core.models.ports import CallInfo, Usage

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.sections import RevisionRecord, StageRecord, VetoRecord
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentPort, LLMPort, ParserPort
    from karenina_core.models.source_folder import SourceFolder
    from karenina_core.plugins import Plugins

AtEnd = Callable[[], Awaitable[None] | None]

Ask = Callable[[], str | Awaitable[str]]
"""One question to a service, asked once: by itself, which may take its time, or as an awaitable."""


class PortProvider(Protocol):
    """Where stages get their ports from: the run, which limits, retries and records every call."""

    @property
    def plugins(self) -> Plugins:
        """The plugins of the run."""

    def llm(self, model: ModelConfig) -> LLMPort:
        """The port for plain text."""

    def parser(self, model: ModelConfig) -> ParserPort:
        """The port for JSON."""

    def agent(self, model: ModelConfig) -> AgentPort:
        """The port for conversations with tools."""

    def answers_through_agent(self, model: ModelConfig, info: CallInfo) -> bool:
        """Whether this answer has to come through the agent port, as the model's adapter declares."""

    def recorded(self, model: ModelConfig) -> bool:
        """Whether the model's answers were recorded earlier."""

    def instructions(self, task: str, interface: str) -> Sequence[str]:
        """What plugins add to the prompt of `task` for models of `interface`."""

    async def consult(self, service: str, query: str, ask: Ask, info: CallInfo) -> str:
        """What a service that is no model says to `query`: kept, or what `ask` brings now. Raises `PortError`."""

    def enter_workspace(self, workspace: Path) -> None:
        """Note that an item has agents in the workspace."""

    async def leave_workspace(self, workspace: Path) -> None:
        """Note that it has no more; after the last item, what was started in the workspace ends."""


@dataclass(slots=True)
class Item:
    """Of which question, models and replicate a state holds the facts. An answer has no judge yet.

    `order` is its place in the run: where calls wait for one another, earlier items go first. `sources` are the folders
    that its stages name as those whose files decide its result.
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
    def key(self) -> tuple[str, str, str, int]:
        """What tells the item from the others of its run, as `VerificationResult.item` does: question, answering model,
        judge (the answering model again where there is none) and replicate."""
        judge = self.parsing_model or self.answering_model
        return self.question.id, self.answering_model.id, judge.id, self.replicate


@dataclass(frozen=True, slots=True)
class ItemError:
    """The error that ended an item."""

    stage: str
    message: str
    outcome: Outcome


@dataclass(slots=True)
class State:
    """All facts about one answer, or about one item whose answer is `parent`. An answer has no parent."""

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
        """Note that agents work in the folder, until `leave_workspace`."""
        if folder not in self.workspaces:
            self.workspaces.add(folder)
            self.item.ports.enter_workspace(folder)

    async def leave_workspace(self, folder: Path) -> None:
        """End what was started for agents in the folder, where nobody else works there."""
        if folder in self.workspaces:
            self.workspaces.remove(folder)
            await self.item.ports.leave_workspace(folder)

    def has(self, name: str) -> bool:
        """Whether the artifact is there, here or in the answer."""
        return name in self.artifacts or (self.parent is not None and name in self.parent.artifacts)

    def read(self, name: str) -> Any:
        """The artifact's value, or None where it is not there."""
        if name in self.artifacts:
            return self.artifacts[name]
        return self.parent.artifacts.get(name) if self.parent is not None else None

    def first_error(self) -> ItemError | None:
        """The error that ended the answer or the item."""
        parent = self.parent
        return self.error if parent is None or parent.error is None else parent.error

    def all_vetoes(self) -> list[VetoRecord]:
        """The answer's vetoes and the item's, in the order in which they were raised."""
        return [*(self.parent.vetoes if self.parent is not None else ()), *self.vetoes]

    def all_revisions(self) -> list[RevisionRecord]:
        """Return the answer's revisions and the item's, in the order in which they were made."""
        return [*(self.parent.revisions if self.parent is not None else ()), *self.revisions]
