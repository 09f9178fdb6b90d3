"""Previewing the prompts for a question without calling any model.

The real pipeline runs, and its requests are recorded in the form in which adapters would receive them. Placeholder
replies let as many stages as possible send their prompts: text ports return the placeholder answer, and JSON ports fill
the schema with words from it. A stage may reject such a reply and ask again, for example because it contains no date.
The next reply is then as empty as the schema allows, and the repeated request is not recorded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from karenina_core.errors import PluginError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import (
    AgentOptions,
    AgentReply,
    CallInfo,
    LLMReply,
    Message,
    ModelRequest,
    ParserReply,
    PortError,
    PortName,
)
from karenina_core.models.prompts import PromptTask
from karenina_core.stages.stage import registered_stages
from karenina_core.stages.state import Item, State
from karenina_engine.check.planner import Planner
from karenina_engine.run.port_factory import PortFactory, RunParts
from karenina_toolkit.conversations import assume_length
from karenina_toolkit.structured.structured_call import REFUSAL
from karenina_toolkit.traces import final_ai_message

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.plan import PlannedStage
    from karenina_core.plugins import Plugins
    from karenina_core.stages.state import Ask


Schema = Mapping[str, Any]

_MAX_LENGTH: Final = 120
_MAX_DEPTH: Final = 12
_TEXTS: Final[Mapping[str, str]] = {
    "date": "2000-01-01",
    "time": "00:00:00",
    "date-time": "2000-01-01T00:00:00",
    "duration": "PT1H",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "uri": "https://example.org/",
    "email": "nobody@example.org",
}


def example_for_schema(schema: Schema, words: str, *, yes: bool = True, empty: bool = False) -> str:
    """Return example JSON that is valid under `schema`, with the beginning of `words` as strings, `yes` as booleans and
    one item in lists, unless the schema requires otherwise. Parts that are nested too deeply or not supported become
    null.

    Quotations from `words` can be found in the answer. If `empty` is set, values are null where possible, and lists are
    as short as possible.
    """
    return json.dumps(_value(schema, schema, _Filling(words.strip(), yes, empty), 0), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _Filling:
    """The parameters of `example_for_schema`."""

    words: str
    yes: bool
    empty: bool


def _value(part: Schema, root: Schema, filling: _Filling, depth: int) -> Any:
    """Return a value for part of the schema, with the parameters of `example_for_schema` in `filling`. Returns None if
    the part is nested too deeply or not supported, or if `filling.empty` is set and the part may be null. If the part
    allows several options, the first option other than null is used.
    """
    part = _resolve(part, root)
    if depth > _MAX_DEPTH or (filling.empty and _may_be_null(part, root)):
        return None
    if "const" in part:
        return part["const"]
    if "enum" in part:
        return next((value for value in part["enum"] if value is not None), None)
    for key in ("anyOf", "oneOf"):
        if key in part:
            options = [option for option in part[key] if _resolve(option, root).get("type") != "null"]
            return _value(options[0], root, filling, depth + 1) if options else None
    if part.get("allOf"):
        merged: dict[str, Any] = {}
        for piece in part["allOf"]:
            merged.update(_resolve(piece, root))
        return _value(merged, root, filling, depth + 1)
    kinds = part.get("type", "object" if "properties" in part else None)
    kind = next((type_name for type_name in kinds if type_name != "null"), "null") if isinstance(kinds, list) else kinds
    match kind:
        case "object":
            inner = part.get("properties", {})
            return {name: _value(schema, root, filling, depth + 1) for name, schema in inner.items()}
        case "array":
            length = max(part.get("minItems", 0), 0 if filling.empty else min(1, part.get("maxItems", 1)))
            return [_value(part.get("items", {}), root, filling, depth + 1) for _ in range(length)]
        case "boolean":
            return filling.yes
        case "integer":
            return int(_number(part))
        case "number":
            return _number(part)
        case "string":
            return _text(part, filling.words)
        case _:
            return None


def _may_be_null(part: Schema, root: Schema) -> bool:
    """Return whether part of the schema allows null."""
    options = [_resolve(option, root) for key in ("anyOf", "oneOf") for option in part.get(key, ())]
    return any(None in option.get("enum", ()) or "null" in _kinds(option) for option in (part, *options))


def _kinds(part: Schema) -> Sequence[str]:
    """Return the types that part of the schema allows. The sequence is empty if it does not name any."""
    kinds = part.get("type", ())
    return [kinds] if isinstance(kinds, str) else kinds


def _number(part: Schema) -> float:
    """Return a number within the schema's limits: 1 if possible."""
    least: float = part.get("minimum", part.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in part))
    most: float = part.get("maximum", part.get("exclusiveMaximum", least + 1) - ("exclusiveMaximum" in part))
    return min(max(1, least), max(most, least))


def _text(part: Schema, words: str) -> str:
    """Return a string with the format or the length that the schema requires; without a format, the beginning of
    `words`.
    """
    if part.get("format") in _TEXTS:
        return _TEXTS[part["format"]]
    text = words[: min(_MAX_LENGTH, part.get("maxLength", _MAX_LENGTH))] or "-"
    return text.ljust(part.get("minLength", 0), "-")


def _resolve(part: Schema, root: Schema) -> Schema:
    """Return part of the schema with its reference resolved. A reference that has no target or is nested too deeply
    becomes an empty schema.
    """
    resolved: Any = part
    for _ in range(_MAX_DEPTH):
        if "$ref" not in resolved:
            return dict(resolved)
        place: Any = root
        for step in str(resolved["$ref"]).removeprefix("#/").split("/"):
            place = place.get(step, {}) if isinstance(place, Mapping) else {}
        resolved = {**place, **{key: value for key, value in resolved.items() if key != "$ref"}}
    return {}


_SAID: Final = "[placeholder: what this model says]"
"""The text used in JSON replies until there is an answer that a judge could quote."""

NO_JUDGE: Final = "no judge is needed"
"""Why a stage sends no prompt although nothing is missing from an estimate."""

PLACEHOLDER: Final = "[placeholder: what the answering model says]"
"""The text that takes the place of the answering model's answer."""


@dataclass(frozen=True, slots=True)
class OwnedTask:
    """A prompt task, with the stages that declare it and the distribution that they belong to."""

    task: PromptTask
    stages: tuple[str, ...]
    distribution: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request: its stage, task, model and port, and everything that the model would receive.

    `task` is None if no declared task has these instructions. `target` is the model, and `model` is the model's id.
    `schema` is set for JSON ports. `options` contains an agent's limits and tools, and is None for other ports.
    `shared` is True if the prompt is sent once for all judges of an answer. `stage` is the name under which the call is
    listed. A stage may choose this name.
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
    shared: bool = False


@dataclass(frozen=True, slots=True)
class UnusedPrompt:
    """A task of a planned stage for which no prompt was sent, with the reason."""

    task: PromptTask
    stage: str
    why: str


@dataclass(frozen=True, slots=True)
class PromptPreview:
    """The prompts that models would receive for a question, in order.

    `failed` contains the errors of stages that failed. The prompts of stages that depend on them are missing. `varied`
    is True if the length of a conversation was assumed.
    """

    question: Question
    prompts: tuple[Prompt, ...]
    unused: tuple[UnusedPrompt, ...]
    failed: Mapping[str, str]
    varied: bool = False


def declared_tasks(plugins: Plugins) -> list[OwnedTask]:
    """Return all declared prompt tasks without duplicates, ordered by slot and stage name."""
    by_task: dict[PromptTask, list[tuple[str, str]]] = {}
    in_order = sorted(
        registered_stages(plugins),
        key=lambda offer: (offer.slot.value if offer.slot is not None else 0, offer.stage.name),
    )
    for offered in in_order:
        for task in offered.stage.prompts:
            by_task.setdefault(task, []).append((offered.stage.name, offered.distribution))
    return [OwnedTask(task, tuple(name for name, _ in owners), owners[0][1]) for task, owners in by_task.items()]


async def preview_prompts(
    question: Question,
    config: VerificationConfig,
    plugins: Plugins,
    *,
    trust: Trust,
    answer: str = PLACEHOLDER,
    longest: bool | None = None,
) -> PromptPreview:
    """Return the prompts that the first answering model and the first judge, or placeholders for them, would receive
    for a question, as if `answer` were the answering model's answer, and the tasks that have no prompt. No server is
    called, so neither keys nor servers are needed. Raises `PlanError` if the question has no valid plan.

    If `answer` is a placeholder, set `longest` to True or False. Recorded answers are then used where there are any,
    and other conversations are as long as possible (True) or as short as possible (False). If `longest` is None,
    conditions are decided by `answer`. Judges answer yes to every question unless this would make the answer fail.
    """
    negative: set[str] = set()
    with nullcontext() if longest is None else assume_length(longest=longest) as assumed:
        while True:
            ports = _PreviewPorts(
                *(PortFactory(RunParts(plugins, config)), _Records(declared_tasks(plugins)), answer, negative),
                is_placeholder=longest is not None,
            )
            records, failing = await _preview_once(question, config, trust, ports)
            if not failing - negative:
                break
            negative |= failing
    return PromptPreview(
        *(question, tuple(records.prompts), tuple(_unused_prompts(records)), records.failed),
        varied=assumed is not None and assumed.varied,
    )


@dataclass(slots=True)
class _Records:
    """The records of a preview. Stages run one at a time, so there is only one current stage."""

    owned: Sequence[OwnedTask]
    prompts: list[Prompt] = field(default_factory=list)
    current: PlannedStage | None = None
    latest: str = ""
    reasons: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    replayed: dict[str, str] = field(default_factory=dict)
    planned: list[PlannedStage] = field(default_factory=list)

    def add(self, request: ModelRequest) -> None:
        """Record a request from the current stage, together with the request's task."""
        assert self.current is not None
        task, model = self._task(request.messages), request.model
        owner = next((entry.distribution for entry in self.owned if entry.task is task), self.current.distribution)
        port, messages = request.port, tuple(request.messages)
        self.prompts.append(
            Prompt(
                *(request.info.stage or self.current.name, owner, task, model.id, port, messages, model),
                schema=request.schema,
                options=request.options,
                shared=self.current.stage.scope == "answer",
            )
        )

    def is_repeated(self, request: ModelRequest) -> bool:
        """Return whether a request repeats an earlier request whose reply was rejected. Such a request has the same
        stage and schema as the earlier request, and ends with the reason for the rejection.
        """
        assert self.current is not None
        return request.messages[-1].content.startswith(REFUSAL) and any(
            prompt.stage == (request.info.stage or self.current.name)
            and prompt.schema == request.schema
            and len(prompt.messages) < len(request.messages)
            and prompt.messages == tuple(request.messages[: len(prompt.messages)])
            for prompt in self.prompts
        )

    def _task(self, messages: Sequence[Message]) -> PromptTask | None:
        """Return the task whose instructions the request starts with. A task named `latest` is preferred, then one of
        the current stage, then the longest instructions. If there is none, return the stage's task without
        instructions, or None.

        The name alone does not suffice, because tasks can share names and stages can send prompts that other stages
        declare.
        """
        assert self.current is not None
        system = messages[0].content if messages and messages[0].role == "system" else ""
        own = [task for task in self.current.stage.prompts if task.name == self.latest]
        every = [entry.task for entry in self.owned]
        for tasks in (own, [task for task in every if task.name == self.latest], self.current.stage.prompts, every):
            matching = [
                task for task in tasks if task.instructions.strip() and system.startswith(task.instructions.strip())
            ]
            if matching:
                return max(matching, key=lambda task: len(task.instructions))
        return next((task for task in (*own, *self.current.stage.prompts) if not task.instructions), None)


async def _preview_once(
    question: Question, config: VerificationConfig, trust: Trust, ports: _PreviewPorts
) -> tuple[_Records, set[str]]:
    """Run the pipeline once without calling a model. Return the records, and the stages that vetoed the item after a
    request for JSON.
    """
    core, records = config.core, ports.records
    pipeline = Planner(config, ports.plugins).pipeline(question)
    answering = core.answering_models[0] if core.answering_models else _placeholder_model("answering")
    judge = core.parsing_models[0] if core.parsing_models else _placeholder_model("judge")

    def item(model: ModelConfig | None) -> Item:
        """Return the item to preview, with `model` as its judge."""
        return Item(question, answering, model, 1, config, ports, trust, core.run_name)

    shared = State(item(None), started=time.monotonic())
    judged = State(item(judge), parent=shared, started=time.monotonic())
    try:
        for state, stages in ((shared, pipeline.plan.of_scope("answer")), (judged, pipeline.plan.of_scope("item"))):
            for planned in stages:
                records.current, records.latest = planned, ""
                (record,) = await pipeline.run_stages([planned], state)
                records.planned.append(planned)
                if record.error is not None:
                    records.failed[planned.name] = record.error
                needs_no_judge = planned.scope == "item" and not planned.stage.needs_judge(config, question, trust)
                none_sent = NO_JUDGE if needs_no_judge else "the placeholder answer does not trigger this stage"
                records.reasons[planned.name] = record.reason or record.error or none_sent
    finally:
        await pipeline.end(judged)
        await pipeline.end(shared)
    asked = {prompt.stage for prompt in records.prompts if prompt.schema is not None}
    return records, {veto.stage for veto in judged.all_vetoes()} & asked


def _unused_prompts(records: _Records) -> Iterable[UnusedPrompt]:
    """Yield each task for which no prompt was sent, with the reason."""
    sent = {prompt.task for prompt in records.prompts}
    for planned in records.planned:
        for task in planned.stage.prompts:
            if task not in sent:
                sent.add(task)
                replayed = records.replayed.get(planned.name)
                why = (
                    f"the model {replayed!r} has recorded answers"
                    if replayed is not None
                    else records.reasons[planned.name]
                )
                yield UnusedPrompt(task, planned.name, why)


def _placeholder_model(role: str) -> ModelConfig:
    """Return a model without an adapter, for use where no model is configured."""
    return ModelConfig(id=role, interface="none", model_name=f"({role} model)")


@dataclass(slots=True)
class _PreviewPorts:
    """Ports that record requests without calling a model.

    Judges answer no to questions from the stages in `negative`, and yes to all other questions. If `answer` is a
    placeholder, a recorded answer takes its place.
    """

    factory: PortFactory
    records: _Records
    answer: str
    negative: set[str]
    is_placeholder: bool = False

    @property
    def plugins(self) -> Plugins:
        """The run's plugins."""
        return self.factory.plugins

    async def call(self, request: ModelRequest) -> Any:
        """Record a request and return a reply: a value for the request's schema, or `answer`. If `answer` is a
        placeholder, a model with recorded answers gives its recorded reply instead, if there is one. Requests to such
        models are not recorded, nor are repeated requests, which get a value as empty as the schema allows.
        """
        records = self.records
        repeated = request.schema is not None and records.is_repeated(request)
        if not self.recorded(request.model):
            if not repeated:
                records.add(request)
        elif records.current is not None:
            records.replayed[records.current.name] = request.model.id
        if request.schema is not None:
            assert records.current is not None
            yes = records.current.name not in self.negative
            words = _SAID if records.current.stage.scope == "answer" else self.answer
            return ParserReply(example_for_schema(request.schema, words, yes=yes, empty=repeated), "json_schema")
        if self.is_placeholder and self.recorded(request.model):
            try:
                return await self._recorded_reply(request)
            except PortError:  # this answer is missing, or not usable
                pass
        if request.options is not None:
            if request.options.recorder is not None:
                await request.options.recorder.record()  # nothing has changed in the workspace
            return AgentReply((Message.assistant(self.answer),))
        return LLMReply(self.answer)

    async def _recorded_reply(self, request: ModelRequest) -> LLMReply | AgentReply:
        """Return the recorded reply, and store its text, with which judges fill their schemas. Raises `PortError`
        without one.
        """
        spec = self.factory.spec(request.model)
        if request.options is None:
            assert spec.llm is not None
            plain = await spec.llm(request.model).invoke(request.messages, info=request.info)
            self.answer = plain.text
            return plain
        assert spec.agent is not None
        reply = await spec.agent(request.model).run(request.messages, request.options, info=request.info)
        self.answer = final_ai_message(reply.trace) or self.answer
        return reply

    def answers_through_agent(self, model: ModelConfig, info: CallInfo) -> bool:
        """Return whether the adapter answers through an agent. Without an adapter, return whether the model has MCP
        servers.
        """
        return self._declared(lambda: self.factory.answers_through_agent(model, info), bool(model.mcp_urls_dict))

    def recorded(self, model: ModelConfig) -> bool:
        """Return whether the adapter replays recordings, or False if there is no adapter."""
        return self._declared(lambda: self.factory.recorded(model), False)

    def instructions(self, task: str, interface: str) -> Sequence[str]:
        """Return the instructions that plugins add, and remember the task for the next request."""
        self.records.latest = task
        return self.factory.instructions(task, interface)

    async def consult(self, service: str, query: str, ask: Ask, info: CallInfo, seconds: float | None = None) -> str:
        """Return a placeholder without calling the service."""
        return f"[placeholder: what {service} finds]"

    def enter_workspace(self, workspace: Path) -> None:
        """Do nothing, because no process is started."""

    async def leave_workspace(self, workspace: Path) -> None:
        """Do nothing."""

    @staticmethod
    def _declared(declared: Callable[[], bool], otherwise: bool) -> bool:
        """Return the result of `declared`, or `otherwise` if the model's adapter does not exist."""
        try:
            return declared()
        except PluginError:
            return otherwise
