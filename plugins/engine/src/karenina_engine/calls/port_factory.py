"""The ports of one run: made once for each model, limited, retried, and closed at the end."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread

from karenina_core.config import find_adapter, prompt_instructions
from karenina_core.errors import ConfigError, PluginError
from karenina_core.models.adapters import AgentTier
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import (
    NO_INFO,
    NO_USAGE,
    AgentOptions,
    AgentPort,
    AgentReply,
    CallInfo,
    CallNotes,
    ErrorCategory,
    LLMPort,
    LLMReply,
    Message,
    ParserPort,
    ParserReply,
    Port,
    PortError,
    Turn,
    TurnGuard,
)
from karenina_core.text import replace_surrogates, replace_surrogates_in
from karenina_engine.calls.call import BudgetGuard, Call, CallLedger, CallListener, Endpoint, PortKind, ReplyStore
from karenina_engine.calls.call_runner import CallRunner
from karenina_engine.calls.concurrency_limits import Bounds, Concurrency, ConcurrencyLimits
from karenina_engine.calls.digests import digest_recordings
from karenina_engine.calls.journal_labels import ModelLabel
from karenina_engine.calls.judge_temperature import ZeroTemperatureParser, with_zero_temperature
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.calls.tool_sessions import ToolSessions, find_tool_problems
from karenina_toolkit.reply_bounds import ReplyBounds
from karenina_toolkit.reply_sanitizer import (
    sanitize_agent_reply,
    sanitize_llm_reply,
    sanitize_parser_reply,
    sanitize_turn,
    sanitize_usage,
)
from karenina_toolkit.service_call import call_service
from karenina_toolkit.source_digest import digest_folders
from karenina_toolkit.urls import complete_url, redact_url

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.models.adapters import AdapterSpec, RegisteredAdapter
    from karenina_core.plugins import Plugins
    from karenina_core.stages.state import Ask

_GiveTools = Callable[[AgentOptions], Awaitable[AgentOptions]]

logger = logging.getLogger("karenina")


@dataclass(slots=True)
class PortFactory:
    """Makes, shares and closes the ports of a run. The pipeline gets them through `PortProvider`."""

    plugins: Plugins
    request_timeout: float
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    reply_store: ReplyStore | None = None
    offline: bool = False
    concurrency: Concurrency = field(default_factory=Concurrency)
    observers: CallListener | None = None
    bounds: ReplyBounds = field(default_factory=ReplyBounds)
    ledger: CallLedger | None = None
    budget: BudgetGuard | None = None
    calls: CallRunner = field(init=False)
    _adapters: dict[str, RegisteredAdapter] = field(default_factory=dict)
    _ports: list[Port] = field(default_factory=list)
    _by_id: dict[tuple[str, int], Port] = field(default_factory=dict)
    _instructions: dict[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    _services: dict[str, Endpoint] = field(default_factory=dict)
    _tools: ToolSessions = field(init=False)

    def __post_init__(self) -> None:
        self.calls = CallRunner(
            self._limits(),
            self.policy,
            self.reply_store,
            ledger=self.ledger,
            budget=self.budget,
            observers=self.observers,
        )
        self._tools = ToolSessions(self.plugins)

    def spec(self, model: ModelConfig) -> AdapterSpec:
        """The adapter of the model. Raises `PluginError`."""
        return self._offered(model).spec

    def _limits(self) -> ConcurrencyLimits:
        def bounds(model: ModelConfig) -> Bounds:
            declared = self.spec(model).concurrency if not isinstance(model, ModelLabel) else None
            return self.concurrency.bounds(model, declared(model) if declared is not None else None)

        return ConcurrencyLimits(bounds, self.concurrency.most or inf, patience=self.policy.patience)

    def llm(self, model: ModelConfig) -> LLMPort:
        """The model's port for plain text."""
        port: LLMPort = self._port("llm", model, _LLM)
        return port

    def parser(self, model: ModelConfig) -> ParserPort:
        """The model's port for JSON."""
        port: ParserPort = self._port("parser", model, _Parser)
        return port

    def agent(self, model: ModelConfig) -> AgentPort:
        """The model's port for conversations with tools."""
        give = self._tool_giver(model)
        port: AgentPort = self._port("agent", model, lambda made, calls, target: _Agent(made, calls, target, give))
        return port

    def answers_through_agent(self, model: ModelConfig, info: CallInfo) -> bool:
        """Whether the answer must come through the agent port: MCP servers, a deep agent, or the adapter says so."""
        spec = self.spec(model)
        if (model.mcp_urls_dict and not spec.recorded) or spec.tier is AgentTier.DEEP_AGENT:
            return True
        if isinstance(model, ModelLabel):
            return (info.question_id, info.replicate) in model.conversations
        return spec.needs_agent is not None and spec.needs_agent(model, info)

    def recorded(self, model: ModelConfig) -> bool:
        """Whether the model's answers were recorded earlier."""
        return self.spec(model).recorded

    def instructions(self, task: str, interface: str) -> Sequence[str]:
        """What plugins add to the prompt of `task` for models of `interface`."""
        key = (task, interface)
        if key not in self._instructions:
            self._instructions[key] = prompt_instructions(self.plugins, task, interface)
        return self._instructions[key]

    async def consult(self, service: str, query: str, ask: Ask, info: CallInfo) -> str:
        """What a service that is no model says to `query`: kept, or what `ask` brings now. Raises `PortError`."""

        async def asked() -> LLMReply:
            return LLMReply(replace_surrogates(await call_service(ask, self.request_timeout)), NO_USAGE)

        if service not in self._services:
            model = ModelConfig(id=service, interface="service", model_name=service)
            self._services[service] = Endpoint("service", model, service, {})
        reply = await self.calls.make(Call(self._services[service], [Message.user(query)], info), asked)
        return reply.text

    def enter_workspace(self, workspace: Path) -> None:
        """Note that an item has agents in the workspace."""
        self._tools.enter(workspace)

    async def leave_workspace(self, workspace: Path) -> None:
        """Note that it has no more; after the last item, the tools that were started in the workspace end."""
        await self._tools.leave(workspace)

    async def aclose(self) -> None:
        """Close all tools and ports; what fails at that is logged and does not keep the others open."""
        await self._tools.aclose()
        ports, self._ports = self._ports, []
        self._by_id.clear()
        for port in ports:
            try:
                await port.aclose()
            except Exception:
                logger.warning("a port could not be closed", exc_info=True)

    def identities(self, models: Sequence[ModelConfig]) -> dict[tuple[str, str], list[bytes]]:
        """Return digests of all that decides the replies of these models, by port and model id."""
        found: dict[tuple[str, str], list[bytes]] = {}
        for model in models:
            for kind in _KINDS:
                if getattr(self.spec(model), kind) is not None:
                    digests = found.setdefault((kind, model.id), [])
                    digest = self._target(kind, model).digest
                    digests += [digest] if digest not in digests else []
        return found

    def _offered(self, model: ModelConfig) -> RegisteredAdapter:
        if model.interface not in self._adapters:
            self._adapters[model.interface] = find_adapter(self.plugins, model.interface)
        return self._adapters[model.interface]

    def _port(self, kind: PortKind, model: ModelConfig, wrap: Callable[[Any, CallRunner, Endpoint], Any]) -> Any:
        key = (kind, id(model))
        if key not in self._by_id:
            port = _OfflinePort(kind) if self.offline or isinstance(model, ModelLabel) else self._raw(kind, model)
            self._by_id[key] = wrap(port, self.calls, self._target(kind, model))
        return self._by_id[key]

    def _raw(self, kind: PortKind, model: ModelConfig) -> Any:
        offered = self._offered(model)
        factory = getattr(offered.spec, kind)
        if factory is None:
            have = ", ".join(offered.spec.ports) or "none"
            raise PortError(
                f"the adapter {model.interface!r} ({offered.distribution} {offered.version}) has no {kind} port "
                f"(it has: {have}), which the model {model.id!r} needs here: choose a model of another interface",
                category=ErrorCategory.PERMANENT,
            )
        bounded = self._bounded(model)
        cold = with_zero_temperature(bounded, offered.spec) if kind == "parser" else bounded
        made = factory(bounded) if cold is bounded else ZeroTemperatureParser(factory, bounded, cold)
        self._ports.append(made)
        return made

    def _bounded(self, model: ModelConfig) -> ModelConfig:
        """Return the model with the run's time limits and bounds where it sets none of its own."""
        of_run = {
            "request_timeout": self.request_timeout,
            "max_reply_bytes": self.bounds.max_bytes,
            "stream_timeout": self.bounds.stream_seconds,
        }
        update = {name: value for name, value in of_run.items() if getattr(model, name) is None}
        return model.model_copy(update=update) if update else model

    def _tool_giver(self, model: ModelConfig) -> _GiveTools | None:
        """What starts the tools of the model's servers; None where the run starts none."""
        spec = self.spec(model)
        if spec.recorded or spec.starts_tools:
            return None
        bounded = self._bounded(model)

        async def give(options: AgentOptions) -> AgentOptions:
            tools = await self._tools.tools(bounded, options.workspace)
            return replace(options, tools=(*options.tools, *tools)) if tools else options

        return give

    def _target(self, kind: PortKind, model: ModelConfig) -> Endpoint:
        offered = self._offered(model)
        if isinstance(model, ModelLabel):
            by_item = offered.spec.by_item or offered.spec.recorded
            return Endpoint(kind, model, model.interface, {"id": model.id}, by_item, offered.spec)
        if kind == "parser":
            model = with_zero_temperature(model, offered.spec)
        identity = model.model_dump(mode="json", include=_CHANGES_REPLIES, exclude_none=True)
        if offered.spec.recorded:
            identity["recordings"] = digest_recordings(model)
        if offered.spec.extra is not None:
            identity["extra"] = offered.spec.extra.model_validate(model.extra).model_dump(mode="json")
        by_item = offered.spec.by_item or offered.spec.recorded
        return Endpoint(kind, model, f"{model.interface} {offered.version}", identity, by_item, offered.spec)


_KINDS: Final[tuple[PortKind, ...]] = ("llm", "parser", "agent")
_CHANGES_REPLIES: Final = {
    "model_name",
    "model_provider",
    "endpoint_base_url",
    "temperature",
    "max_tokens",
    "mcp_urls_dict",
    "mcp_tool_filter",
    "mcp_tool_description_overrides",
}


def check_models(plugins: Plugins, models: Sequence[tuple[str, ModelConfig]], *, offline: bool = False) -> None:
    """Look, before a run and without a request, at what would fail every item. Raises `ConfigError` with all of it.

    `models` are pairs of role (as the message names it) and model; `offline` says that none of them will be asked, so
    that what their adapters need for that (keys, packages) may be missing.
    """
    from pydantic import ValidationError

    problems: list[str] = []
    for role, model in models:
        where = f"{role} {model.id!r}"
        try:
            offered = find_adapter(plugins, model.interface)
        except PluginError as error:
            problems.append(f"{where}: {error}")
            continue
        spec = offered.spec
        if isinstance(model, ModelLabel):
            continue
        problems += [f"{where}: {problem}" for problem in _address_in_name(model, spec)]
        reason = spec.unavailable() if spec.unavailable is not None else None
        if reason is not None and not offline:
            problems.append(f"{where}: the adapter {spec.interface!r} is not available: {reason}")
            continue
        try:
            if spec.extra is not None:
                spec.extra.model_validate(model.extra)
            elif model.extra:
                names = ", ".join(sorted(model.extra))
                problems.append(f"{where}: the adapter {spec.interface!r} takes nothing in extra, and it holds {names}")
            if spec.check is not None and not offline:
                spec.check(model)
        except ValidationError as error:
            problems += [
                f"{where}: extra.{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
                for problem in error.errors(include_url=False, include_input=False)
            ]
        except ValueError as error:
            problems.append(f"{where}: {error}")
        problems += [f"{where}: {problem}" for problem in find_tool_problems(plugins, model, spec)]
    if problems:
        raise ConfigError(problems)


def _address_in_name(model: ModelConfig, spec: AdapterSpec) -> Iterator[str]:
    """Yield the problem of a name that ends in a server's address: requests would go to the provider's own server."""
    name, _, address = model.model_name.rpartition("@")
    if not name or model.endpoint_base_url is not None or spec.recorded or spec.free:
        return
    url = complete_url(address) or (address if "://" in address else None)
    if url is not None:
        yield f"model_name ends in the address of a server: move it to endpoint_base_url = {redact_url(url)!r}"


class _ManagedPort:
    """A port of the run: it says what is called, and passes it on."""

    __slots__ = ("_calls", "_port", "_target")

    def __init__(self, port: Any, calls: CallRunner, target: Endpoint) -> None:
        self._port = port
        self._calls = calls
        self._target = target

    @property
    def _where(self) -> str:
        """Return how errors name the model."""
        return self._target.model.display_string

    async def aclose(self) -> None:
        """The hub closes the port itself."""


class _LLM(_ManagedPort):
    __slots__ = ()

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        async def ask() -> LLMReply:
            return sanitize_llm_reply(await self._port.invoke(messages, info=info))

        return await self._calls.make(Call(self._target, messages, info), ask)


class _Parser(_ManagedPort):
    __slots__ = ()

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        async def ask() -> ParserReply:
            return sanitize_parser_reply(await self._port.parse(messages, schema, info=info))

        return await self._calls.make(Call(self._target, messages, info, schema), ask)


class _Agent(_ManagedPort):
    __slots__ = ("_give_tools",)

    def __init__(self, port: Any, calls: CallRunner, target: Endpoint, give_tools: _GiveTools | None) -> None:
        super().__init__(port, calls, target)
        self._give_tools = give_tools

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        asked = _asked(options)
        # What the agent leaves in the workspace of an answer is read by the judges; a judge's own copy by nobody.
        lasting = options.workspace is None or not info.shared
        # Two questions may ask the same of different folders: a run serves its own alone, its turns whom they may.
        place = {} if options.workspace is None else {"question_id": info.question_id}
        if options.workspace is not None and info.sources:
            place["files"] = await to_thread.run_sync(digest_folders, info.sources)
        parts = bool(getattr(self._port, "guards_calls", False))
        call = Call(self._target, messages, info, {**asked, **place}, self_contained=lasting, composite=parts)
        work = self._turns if parts else self._whole
        try:
            reply = await self._calls.make(call, lambda: work(call, options))
        except PortError as error:
            if error.partial is not None:
                error.partial = _whole_trace(error.partial)
            raise
        return reply

    async def _whole(self, call: Call, options: AgentOptions) -> AgentReply:
        """One run of an agent that is limited and repeated as a whole."""
        reply = await self._port.run(call.messages, await self._with_tools(options), info=call.info)
        return sanitize_agent_reply(self._where, reply)

    async def _turns(self, call: Call, options: AgentOptions) -> AgentReply:
        """One run of an agent whose requests are calls of their own; what they take is what the whole takes."""
        info = replace(call.info, notes=call.notes)
        options = await self._started(options, call.notes)
        guard = self._guard(call.messages, _asked(options), info)
        reply = await self._port.run(call.messages, replace(options, guard=guard), info=info)
        return sanitize_agent_reply(self._where, reply)

    async def _started(self, options: AgentOptions, notes: CallNotes) -> AgentOptions:
        """The options with the tools of the model's servers; a start that failed is repeated as calls are."""
        started = CallNotes()
        try:
            return await self._calls.policy.call(lambda: self._with_tools(options), started)
        finally:
            notes.add(started)

    async def _with_tools(self, options: AgentOptions) -> AgentOptions:
        return options if self._give_tools is None else await self._give_tools(options)

    def _guard(self, messages: Sequence[Message], asked: Mapping[str, Any], info: CallInfo) -> TurnGuard:
        target = replace(self._target, port="turn")

        async def guard(ask: Callable[[], Awaitable[Turn]], trace: Sequence[Message]) -> Turn:
            async def checked() -> Turn:
                return sanitize_turn(self._where, await ask())

            return await self._calls.make(Call(target, [*messages, *trace], info, asked), checked)

        return guard


def _asked(options: AgentOptions) -> dict[str, Any]:
    return {
        "max_turns": options.max_turns,
        "tools": [[tool.name, tool.description, tool.schema] for tool in options.tools],
        "workspace": options.workspace is not None,
    }


class _OfflinePort:
    """The port of a run that asks nobody: the journal answers before it is reached."""

    def __init__(self, kind: PortKind) -> None:
        self._kind = kind

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        raise self._refusal()

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        raise self._refusal()

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        raise self._refusal()

    def _refusal(self) -> PortError:
        return PortError(f"this run asks nobody, and its {self._kind} port was asked", category=ErrorCategory.PERMANENT)


def _whole_trace(reply: AgentReply) -> AgentReply:
    trace = tuple(Message.from_dict(replace_surrogates_in(one.to_dict())) for one in reply.trace)
    return replace(reply, trace=trace, usage=sanitize_usage(reply.usage))
