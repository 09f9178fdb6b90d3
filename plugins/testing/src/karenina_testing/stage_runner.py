"""Run a single stage with artifacts from the test."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from karenina_core import plugins as plugin_room
from karenina_core.artifacts.artifact import AnyKey, ArtifactKey, Slot
from karenina_core.config import VerificationConfig
from karenina_core.data.question import Question
from karenina_core.data.sections import KeptFile, StageRecord, VetoRecord
from karenina_core.data.trust import Trust
from karenina_core.models.adapters import AdapterSpec, AgentTier
from karenina_core.models.ports import CallInfo, ModelRequest
from karenina_core.pipeline import Pipeline
from karenina_core.plan import order_stages
from karenina_core.plugins import Plugins
from karenina_core.stage_selection import SelectedStage
from karenina_core.stages.context import Item, ItemError, State
from karenina_core.stages.stage import Stage, registered_stages
from karenina_testing.scripted_models import ScriptedModels
from karenina_toolkit.files.source_digest import source_folders
from karenina_toolkit.kept_files import keeping_files
from karenina_toolkit.plugin_lookup import find_adapter, prompt_instructions
from karenina_toolkit.stage_support import call_service

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins
    from karenina_core.stages.state import Ask


@dataclass
class StagePorts:
    """The ports for a single stage. Calls are not retried, and no MCP servers are started."""

    plugins: Plugins
    request_timeout: float
    _opened: dict[tuple[str, int], tuple[ModelConfig, Any]] = field(default_factory=dict)

    def call(self, request: ModelRequest) -> Coroutine[Any, Any, Any]:
        """Send a request to the port of its model's adapter, which is opened on first use, and return the reply. Raises
        `PluginError` if the adapter is not installed, and `LookupError` if it has no such port.
        """
        return request.send(self._port(request.port, request.model))

    def answers_through_agent(self, model: ModelConfig, info: CallInfo) -> bool:
        """Return whether the model's agent port answers: for deep agents, MCP servers, or if its adapter needs it."""
        spec = self._spec(model)
        if (model.mcp_urls_dict and not spec.recorded) or spec.tier is AgentTier.DEEP_AGENT:
            return True
        return spec.needs_agent is not None and spec.needs_agent(model)(info)

    def recorded(self, model: ModelConfig) -> bool:
        """Return whether the model's answers were recorded earlier."""
        return self._spec(model).recorded

    def instructions(self, task: str, interface: str) -> Sequence[str]:
        """Return the instructions that plugins add to the prompt for `task`."""
        return prompt_instructions(self.plugins, task, interface)

    async def consult(self, service: str, query: str, ask: Ask, info: CallInfo, seconds: float | None = None) -> str:
        """Return the result of `ask` without recording it. Raises `PortError` if it fails or takes too long."""
        return await call_service(ask, self.request_timeout if seconds is None else seconds)

    def enter_workspace(self, workspace: Path) -> None:
        """Do nothing, because no tools are started."""

    async def leave_workspace(self, workspace: Path) -> None:
        """Do nothing, because no tools were started."""

    async def aclose(self) -> None:
        """Close the ports."""
        for _, port in self._opened.values():
            await port.aclose()
        self._opened.clear()

    def _spec(self, model: ModelConfig) -> AdapterSpec:
        """Return the declaration of the model's adapter. Raises `PluginError` if the adapter is not installed."""
        return find_adapter(self.plugins, model.interface).spec

    def _port(self, kind: str, model: ModelConfig) -> Any:
        """Return the model's port, creating it on first use. Raises `LookupError` if the adapter has no such port."""
        key = (kind, id(model))
        if key not in self._opened:
            make = getattr(self._spec(model), kind)
            if make is None:
                raise LookupError(f"the adapter {model.interface!r} has no {kind} port")
            self._opened[key] = model, make(model)  # the model is kept so that no other model gets its id
        return self._opened[key][1]


T = TypeVar("T")


@dataclass
class _FilesInMemory:
    """A file storage that keeps contents in memory."""

    contents: dict[str, bytes] = field(default_factory=dict)

    def keep(self, name: str, data: bytes | Path, media_type: str, below: Path | None) -> KeptFile:
        """Store a file in memory under `name`, given as bytes or as a path (relative to `below` if that is set), and
        return its entry for the result.
        """
        content = data if isinstance(data, bytes) else (data if below is None else below / data).read_bytes()
        self.contents[name] = content
        digest = sha256(content).hexdigest()
        return KeptFile(name=name, media_type=media_type, size=len(content), sha256=digest)


@dataclass(frozen=True, slots=True)
class StageRun:
    """The outcome of a stage that ran alone. Await `end` to run its clean-up (`context.at_end`)."""

    state: State
    record: StageRecord
    pipeline: Pipeline
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The contents of the files that the stage stored with the item, by file name."""

    async def end(self) -> None:
        """Run the functions that the stage registered for the end of the item or the answer."""
        await self.pipeline.end(self.state)

    def artifact(self, key: ArtifactKey[T]) -> T | None:
        """Return the artifact's value, or None if it was not set."""
        value: T | None = self.state.read(key.name)
        return value

    @property
    def vetoes(self) -> Sequence[VetoRecord]:
        """The vetoes raised by the stage."""
        return self.state.vetoes

    @property
    def error(self) -> ItemError | None:
        """The error that the stage reported or raised, or None."""
        return self.state.error

    def field(self, name: str) -> Any:
        """Return the value of a result field, or None if the stage did not set it."""
        for values in self.state.fields.values():
            if name in values:
                return values[name]
        return None


async def run_stage(
    stage: type[Stage],
    *,
    question: Question | None = None,
    artifacts: Mapping[AnyKey, object] | None = None,
    models: ScriptedModels | None = None,
    trust: Trust | None = None,
    answering: Mapping[str, Any] | None = None,
    plugins: Sequence[object] = (),
    slot: Slot | None = None,
    **settings: Any,
) -> StageRun:
    """Run `stage` alone, as a pipeline would, and return what it did; await its `end` for the clean-up. `artifacts`
    replace those of earlier stages, and `models` reply to its calls. If the stage raises an exception, it becomes the
    `error` of the run.

    The stage is offered for `slot`, or else for its class's `for_slot`, or else as an extra stage. `answering` contains
    fields of the answering model. `settings` are settings of the stage or the core, by their names in the
    configuration. `plugins` are additional plugins that the stage uses through the context, such as trait evaluators
    and prompt instructions.
    """
    scripted = models or ScriptedModels()
    room, config = configure(stage, scripted, plugins, answering or {}, settings, slot)
    model, judge = config.core.answering_models[0], config.core.parsing_models[0]
    asked = question or Question(question="What is asked?")
    offered = [registered.slot for registered in registered_stages(room) if registered.stage is stage]
    plan = order_stages([SelectedStage(stage(), "under-test", "0", offered[0])])
    ports = StagePorts(room, config.core.request_timeout)
    item = Item(
        question=asked,
        answering_model=model,
        parsing_model=None if stage.scope == "answer" else judge,
        replicate=1,
        config=config,
        ports=ports,
        trust=trust or Trust(),
        sources=source_folders(plan, config, asked),
    )
    state = State(item, artifacts={key.name: value for key, value in (artifacts or {}).items()})
    pipeline = Pipeline(plan, None)
    files = _FilesInMemory()
    try:
        with keeping_files(files):
            records = await pipeline.run_stages(plan.stages, state)
    finally:
        await ports.aclose()
    return StageRun(state, records[0], pipeline, files.contents)


def configure(
    stage: type[Stage],
    models: ScriptedModels,
    plugins: Sequence[object] = (),
    answering: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    slot: Slot | None = None,
) -> tuple[Plugins, VerificationConfig]:
    """Return the plugins and configuration for `run_stage`, which takes the same arguments."""
    room = Plugins()
    for plugin in (models, _Offer(stage, slot), *plugins):
        room.register(plugin)
    model, judge = models.model("answering", **(answering or {})), models.model("judge")
    with plugin_room.use_plugins(room):
        return room, VerificationConfig(answering_models=[model], parsing_models=[judge], **(settings or {}))


class _Offer:
    """A plugin that offers one stage through a slot's hook."""

    def __init__(self, stage: type[Stage], slot: Slot | None) -> None:
        from karenina_core.hooks import hookimpl

        slot = slot or getattr(stage, "slot", None) or stage.for_slot
        setattr(self, slot.hook if slot is not None else "karenina_extra_stages", hookimpl(lambda: [stage]))
