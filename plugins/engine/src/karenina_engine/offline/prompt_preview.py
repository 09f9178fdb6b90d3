"""Rehearse one question: the real pipeline over ports that ask nobody, to see what models would be told.

Every request is kept as the adapter's port would get it. The replies are placeholders, made so that as many stages as
possible get to speak: text ports say the placeholder answer, JSON ports fill their schema with words of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from karenina_core.errors import PluginError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import NO_INFO, AgentOptions, AgentReply, CallInfo, LLMReply, Message, ParserReply
from karenina_core.models.prompts import PromptTask
from karenina_core.stages.stage import registered_stages
from karenina_core.stages.state import Item, State
from karenina_engine.calls.port_factory import PortFactory
from karenina_engine.offline.schema_example import example_for_schema
from karenina_engine.scheduling.planner import Planner

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.planning.plan import PlannedStage
    from karenina_core.plugins import Plugins
    from karenina_core.stages.state import Ask

PLACEHOLDER: Final = "[placeholder: what the answering model says]"
"""What stands for the answer of the model under test."""

PortName = Literal["llm", "parser", "agent"]


@dataclass(frozen=True, slots=True)
class OwnedTask:
    """A prompt task, the stages that declare it, and whose they are."""

    task: PromptTask
    stages: tuple[str, ...]
    distribution: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request: which stage makes it, as what, to which model, through which port, and all that the model sees.

    `task` is None where the stage declares no task with these words. `target` is the model, and `model` its id.
    `schema` is that of a JSON port; `options` bound an agent.
    """

    stage: str
    distribution: str
    task: PromptTask | None
    model: str
    port: PortName
    messages: tuple[Message, ...]
    target: ModelConfig
    schema: Mapping[str, Any] | None = None
    options: AgentOptions | None = None


@dataclass(frozen=True, slots=True)
class UnusedPrompt:
    """A declared task of a planned stage that did not come up, and why."""

    task: PromptTask
    stage: str
    why: str


@dataclass(frozen=True, slots=True)
class PromptPreview:
    """What models would be told about one question, in the order of the stages.

    `failed` are stages that could not do their work, with the error: what comes after them is not said.
    """

    question: Question
    prompts: tuple[Prompt, ...]
    unsaid: tuple[UnusedPrompt, ...]
    failed: Mapping[str, str]


def declared_tasks(plugins: Plugins) -> list[OwnedTask]:
    """Every prompt task that the stages in force declare, each once, in the order of slots and names."""
    found: dict[PromptTask, list[tuple[str, str]]] = {}
    by_place = sorted(
        registered_stages(plugins),
        key=lambda one: (one.stage.slot.value if one.stage.slot is not None else 0, one.stage.name),
    )
    for offered in by_place:
        for task in offered.stage.prompts:
            found.setdefault(task, []).append((offered.stage.name, offered.distribution))
    return [OwnedTask(task, tuple(name for name, _ in who), who[0][1]) for task, who in found.items()]


async def preview_prompts(
    question: Question,
    config: VerificationConfig,
    plugins: Plugins,
    *,
    trust: Trust,
    answer: str = PLACEHOLDER,
) -> PromptPreview:
    """Run the pipeline over `question` and keep what it asks; `answer` stands for the answering model's.

    The models are the first of each kind in the configuration; where there is none, a nameless one that no adapter
    serves. Nothing is asked and no adapter is opened, so neither keys nor servers are needed. A judge says yes, except
    where that fails the answer. Raises `PlanError`.
    """
    no: set[str] = set()
    while True:
        notes, failing = await _once(question, config, plugins, trust, answer, no)
        if not failing - no:
            return PromptPreview(question, tuple(notes.prompts), tuple(_unsaid(notes)), notes.failed)
        no |= failing


@dataclass(slots=True)
class _Notes:
    """What one rehearsal has heard. The pipeline runs its stages one after another, so there is always one on."""

    owned: Sequence[OwnedTask]
    prompts: list[Prompt] = field(default_factory=list)
    on: PlannedStage | None = None
    latest: str = ""
    why_not: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    replayed: dict[str, str] = field(default_factory=dict)
    planned: list[PlannedStage] = field(default_factory=list)

    def add(
        self,
        model: ModelConfig,
        port: PortName,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None = None,
        options: AgentOptions | None = None,
    ) -> None:
        assert self.on is not None
        task = self._task(messages)
        owner = next((one.distribution for one in self.owned if one.task is task), self.on.distribution)
        self.prompts.append(Prompt(self.on.name, owner, task, model.id, port, tuple(messages), model, schema, options))

    def _task(self, messages: Sequence[Message]) -> PromptTask | None:
        """The task whose words the request begins with: of those of the latest name, else of any.

        Several tasks of a plugin may share a name, and a stage may ask for what another one declares (evaluators of
        traits do), so the words decide.
        """
        assert self.on is not None
        system = messages[0].content if messages and messages[0].role == "system" else ""
        own = [task for task in self.on.stage.prompts if task.name == self.latest]
        every = [one.task for one in self.owned]
        for tasks in (own, [task for task in every if task.name == self.latest], self.on.stage.prompts, every):
            matching = [
                task for task in tasks if task.instructions.strip() and system.startswith(task.instructions.strip())
            ]
            if matching:
                return max(matching, key=lambda task: len(task.instructions))
        return next((task for task in own if not task.instructions), None)


async def _once(
    question: Question,
    config: VerificationConfig,
    plugins: Plugins,
    trust: Trust,
    answer: str,
    no: set[str],
) -> tuple[_Notes, set[str]]:
    """One pass. `no` are the stages whose judge says no; the second value are stages whose judge failed the item."""
    core = config.core
    notes = _Notes(declared_tasks(plugins))
    pipeline = Planner(config, plugins).pipeline(question)
    ports = _Ports(PortFactory(plugins, core.request_timeout), notes, answer, no)
    answering = core.answering_models[0] if core.answering_models else _nobody("answering")
    judge = core.parsing_models[0] if core.parsing_models else _nobody("judge")

    def item(model: ModelConfig | None) -> Item:
        return Item(question, answering, model, 1, config, ports, trust, core.run_name)

    shared = State(item(None), started=time.monotonic())
    judged = State(item(judge), parent=shared, started=time.monotonic())
    try:
        for state, stages in ((shared, pipeline.plan.of_scope("answer")), (judged, pipeline.plan.of_scope("item"))):
            for planned in stages:
                notes.on, notes.latest = planned, ""
                (record,) = await pipeline.run_stages([planned], state)
                notes.planned.append(planned)
                if record.error is not None:
                    notes.failed[planned.name] = record.error
                notes.why_not[planned.name] = record.reason or record.error or "the placeholder did not bring it up"
    finally:
        await pipeline.end(judged)
        await pipeline.end(shared)
    asked = {prompt.stage for prompt in notes.prompts if prompt.schema is not None}
    return notes, {veto.stage for veto in judged.all_vetoes()} & asked


def _unsaid(notes: _Notes) -> Iterable[UnusedPrompt]:
    said = {prompt.task for prompt in notes.prompts}
    for planned in notes.planned:
        for task in planned.stage.prompts:
            if task not in said:
                said.add(task)
                replayed = notes.replayed.get(planned.name)
                why = f"what {replayed} says is recorded" if replayed is not None else notes.why_not[planned.name]
                yield UnusedPrompt(task, planned.name, why)


def _nobody(role: str) -> ModelConfig:
    return ModelConfig(id=role, interface="none", model_name=f"({role} model)")


@dataclass(frozen=True, slots=True)
class _Ports:
    """Gives stages ports that keep what they are asked. What adapters declare about a model holds here too."""

    hub: PortFactory
    notes: _Notes
    answer: str
    no: set[str]

    @property
    def plugins(self) -> Plugins:
        """The plugins of the run."""
        return self.hub.plugins

    def llm(self, model: ModelConfig) -> _Port:
        """The port for text."""
        return _Port(self, model)

    parser = agent = llm

    def answers_through_agent(self, model: ModelConfig, info: CallInfo) -> bool:
        """As the adapter declares; without one, where the model has MCP servers."""
        return self._declared(lambda: self.hub.answers_through_agent(model, info), bool(model.mcp_urls_dict))

    def recorded(self, model: ModelConfig) -> bool:
        """As the adapter declares."""
        return self._declared(lambda: self.hub.recorded(model), False)

    def instructions(self, task: str, interface: str) -> Sequence[str]:
        """What plugins add, and a note of the task that comes."""
        self.notes.latest = task
        return self.hub.instructions(task, interface)

    async def consult(self, service: str, query: str, ask: Ask, info: CallInfo) -> str:
        """A placeholder: nobody is asked."""
        return f"[placeholder: what {service} finds]"

    def enter_workspace(self, workspace: Path) -> None:
        """Nothing is started."""

    async def leave_workspace(self, workspace: Path) -> None:
        """Nothing was."""

    @staticmethod
    def _declared(ask: Callable[[], bool], otherwise: bool) -> bool:
        try:
            return ask()
        except PluginError:
            return otherwise


@dataclass(frozen=True, slots=True)
class _Port:
    """All three ports of one model."""

    ports: _Ports
    model: ModelConfig

    async def aclose(self) -> None:
        """Nothing is open."""

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        self._note("llm", messages)
        return LLMReply(self.ports.answer)

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        notes = self.ports.notes
        self._note("parser", messages, schema)
        assert notes.on is not None
        return ParserReply(
            example_for_schema(schema, self.ports.answer, yes=notes.on.name not in self.ports.no), "json_schema"
        )

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        self._note("agent", messages, options=options)
        return AgentReply((Message.assistant(self.ports.answer),))

    def _note(
        self,
        port: PortName,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None = None,
        options: AgentOptions | None = None,
    ) -> None:
        notes = self.ports.notes
        if not self.ports.recorded(self.model):
            notes.add(self.model, port, messages, schema, options)
        elif notes.on is not None:
            notes.replayed[notes.on.name] = self.model.id
