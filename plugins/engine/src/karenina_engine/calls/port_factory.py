"""The ports of one run: made once for each model, with limits and retries, and closed at the end."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread

from karenina_core.config import find_adapter, prompt_instructions
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
from karenina_engine.calls.tool_sessions import ToolSessions
from karenina_toolkit.reply_bounds import ReplyBounds
from karenina_toolkit.reply_checks import ask_llm, ask_parser, ask_turn
from karenina_toolkit.reply_sanitizer import (
    sanitize_agent_reply,
    sanitize_llm_reply,
    sanitize_parser_reply,
    sanitize_turn,
    sanitize_usage,
)
from karenina_toolkit.service_call import call_service
from karenina_toolkit.source_digest import digest_folders

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.models.adapters import AdapterSpec, RegisteredAdapter
    from karenina_core.plugins import Plugins
    from karenina_core.stages.state import Ask

_StartTools = Callable[[AgentOptions], Awaitable[AgentOptions]]

logger = logging.getLogger("karenina")


@dataclass(slots=True)
class PortFactory:
    """A factory of the ports of a run, which shares and closes them. The pipeline gets them through `PortProvider`."""

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
        """Return the adapter of the model. Raises `PluginError`."""
        return self._adapter(model).spec

    def _limits(self) -> ConcurrencyLimits:
        def bounds(model: ModelConfig) -> Bounds:
            declared = self.spec(model).concurrency if not isinstance(model, ModelLabel) else None
            return self.concurrency.bounds(model, declared(model) if declared is not None else None)

        return ConcurrencyLimits(bounds, self.concurrency.most or inf, patience=self.policy.patience)

    def llm(self, model: ModelConfig) -> LLMPort:
        """Return the model's port for plain text."""
        port: LLMPort = self._port("llm", model, _ManagedLLM)
        return port

    def parser(self, model: ModelConfig) -> ParserPort:
        """Return the model's port for JSON."""
        port: ParserPort = self._port("parser", model, _ManagedParser)
        return port

    def agent(self, model: ModelConfig) -> AgentPort:
        """Return the model's port for conversations with tools."""
        start = self._tool_starter(model)

        def wrap(made: Any, calls: CallRunner, endpoint: Endpoint) -> _ManagedAgent:
            return _ManagedAgent(made, calls, endpoint, start)

        port: AgentPort = self._port("agent", model, wrap)
        return port

    def answers_through_agent(self, model: ModelConfig, info: CallInfo) -> bool:
        """Return whether the answer comes from the agent port: MCP servers, a deep agent, or an adapter rule."""
        spec = self.spec(model)
        if (model.mcp_urls_dict and not spec.recorded) or spec.tier is AgentTier.DEEP_AGENT:
            return True
        if isinstance(model, ModelLabel):
            return (info.question_id, info.replicate) in model.conversations
        return spec.needs_agent is not None and spec.needs_agent(model, info)

    def recorded(self, model: ModelConfig) -> bool:
        """Return whether the model's answers are recorded."""
        return self.spec(model).recorded

    def instructions(self, task: str, interface: str) -> Sequence[str]:
        """Return what plugins add to the prompt of `task` for models of `interface`."""
        key = (task, interface)
        if key not in self._instructions:
            self._instructions[key] = prompt_instructions(self.plugins, task, interface)
        return self._instructions[key]

    async def consult(self, service: str, query: str, ask: Ask, info: CallInfo) -> str:
        """Return the reply of a service to `query`: stored, or from `ask`. Raises `PortError`."""

        async def request() -> LLMReply:
            return LLMReply(replace_surrogates(await call_service(ask, self.request_timeout)), NO_USAGE)

        if service not in self._services:
            model = ModelConfig(id=service, interface="service", model_name=service)
            self._services[service] = Endpoint("service", model, service, {})
        reply = await self.calls.make(Call(self._services[service], [Message.user(query)], info), request)
        return reply.text

    def enter_workspace(self, workspace: Path) -> None:
        """Note that an item uses agents in the workspace."""
        self._tools.enter(workspace)

    async def leave_workspace(self, workspace: Path) -> None:
        """Note that it uses none any more; after the last item, the tools of the workspace are closed."""
        await self._tools.leave(workspace)

    async def aclose(self) -> None:
        """Close all tools and ports. An error is logged, and the others are closed."""
        await self._tools.aclose()
        ports, self._ports = self._ports, []
        self._by_id.clear()
        for port in ports:
            try:
                await port.aclose()
            except Exception:
                logger.warning("a port could not be closed", exc_info=True)

    def identities(self, models: Sequence[ModelConfig]) -> dict[tuple[str, str], list[bytes]]:
        """Return digests of everything that decides the replies of these models, by port and model id."""
        found: dict[tuple[str, str], list[bytes]] = {}
        for model in models:
            for kind in _KINDS:
                if getattr(self.spec(model), kind) is not None:
                    digests = found.setdefault((kind, model.id), [])
                    digest = self._endpoint(kind, model).digest
                    digests += [digest] if digest not in digests else []
        return found

    def _adapter(self, model: ModelConfig) -> RegisteredAdapter:
        if model.interface not in self._adapters:
            self._adapters[model.interface] = find_adapter(self.plugins, model.interface)
        return self._adapters[model.interface]

    def _port(self, kind: PortKind, model: ModelConfig, wrap: Callable[[Any, CallRunner, Endpoint], Any]) -> Any:
        key = (kind, id(model))
        if key not in self._by_id:
            port = _OfflinePort(kind) if self.offline or isinstance(model, ModelLabel) else self._make_port(kind, model)
            self._by_id[key] = wrap(port, self.calls, self._endpoint(kind, model))
        return self._by_id[key]

    def _make_port(self, kind: PortKind, model: ModelConfig) -> Any:
        offered = self._adapter(model)
        factory = getattr(offered.spec, kind)
        if factory is None:
            have = ", ".join(offered.spec.ports) or "none"
            raise PortError(
                f"the adapter {model.interface!r} ({offered.distribution} {offered.version}) has no {kind} port "
                f"(it has: {have}), which the model {model.id!r} needs here: choose a model of another interface",
                category=ErrorCategory.PERMANENT,
            )
        bounded = self._with_bounds(model)
        cold = with_zero_temperature(bounded, offered.spec) if kind == "parser" else bounded
        made = factory(bounded) if cold is bounded else ZeroTemperatureParser(factory, bounded, cold)
        self._ports.append(made)
        return made

    def _with_bounds(self, model: ModelConfig) -> ModelConfig:
        """Return the model with the run's time limits and bounds, unless it sets its own."""
        of_run = {
            "request_timeout": self.request_timeout,
            "max_reply_bytes": self.bounds.max_bytes,
            "stream_timeout": self.bounds.stream_seconds,
        }
        update = {name: value for name, value in of_run.items() if getattr(model, name) is None}
        return model.model_copy(update=update) if update else model

    def _tool_starter(self, model: ModelConfig) -> _StartTools | None:
        """Return a function that starts the tools of the model's servers; None if the run starts none."""
        spec = self.spec(model)
        if spec.recorded or spec.starts_tools:
            return None
        bounded = self._with_bounds(model)

        async def start(options: AgentOptions) -> AgentOptions:
            tools = await self._tools.tools(bounded, options.workspace)
            return replace(options, tools=(*options.tools, *tools)) if tools else options

        return start

    def _endpoint(self, kind: PortKind, model: ModelConfig) -> Endpoint:
        offered = self._adapter(model)
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


class _ManagedPort:
    """A port of the run, which makes its calls through the call runner."""

    __slots__ = ("_calls", "_endpoint", "_port")

    def __init__(self, port: Any, calls: CallRunner, endpoint: Endpoint) -> None:
        self._port = port
        self._calls = calls
        self._endpoint = endpoint

    @property
    def _where(self) -> str:
        """The name of the model in messages."""
        return self._endpoint.model.display_string

    async def aclose(self) -> None:
        """Do nothing: the factory closes the port."""


class _ManagedLLM(_ManagedPort):
    __slots__ = ()

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        async def request() -> LLMReply:
            return sanitize_llm_reply(await self._port.invoke(messages, info=info))

        async def send() -> LLMReply:
            return await ask_llm(self._where, request, self._endpoint.model.max_tokens)

        return await self._calls.make(Call(self._endpoint, messages, info), send)


class _ManagedParser(_ManagedPort):
    __slots__ = ()

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        async def request() -> ParserReply:
            return sanitize_parser_reply(await self._port.parse(messages, schema, info=info))

        async def send() -> ParserReply:
            return await ask_parser(self._where, request, self._endpoint.model.max_tokens)

        return await self._calls.make(Call(self._endpoint, messages, info, schema), send)


class _ManagedAgent(_ManagedPort):
    __slots__ = ("_start_tools",)

    def __init__(self, port: Any, calls: CallRunner, endpoint: Endpoint, start_tools: _StartTools | None) -> None:
        super().__init__(port, calls, endpoint)
        self._start_tools = start_tools

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        request = _agent_request(options)
        # Judges read what an agent leaves in the workspace of an answer; nothing reads a judge's own copy.
        self_contained = options.workspace is None or not info.shared
        # Questions may send the same request with different folders: a run is for one question, its turns for any.
        place = {} if options.workspace is None else {"question_id": info.question_id}
        if options.workspace is not None and info.sources:
            place["files"] = await to_thread.run_sync(digest_folders, info.sources)
        composite = bool(getattr(self._port, "guards_calls", False))
        request = {**request, **place}
        call = Call(self._endpoint, messages, info, request, self_contained=self_contained, composite=composite)
        work = self._run_turns if composite else self._run_whole
        try:
            reply = await self._calls.make(call, lambda: work(call, options))
        except PortError as error:
            if error.partial is not None:
                error.partial = _clean_trace(error.partial)
            raise
        return reply

    async def _run_whole(self, call: Call, options: AgentOptions) -> AgentReply:
        """Run an agent that is limited and retried as a whole."""
        reply = await self._port.run(call.messages, await self._with_tools(options), info=call.info)
        return sanitize_agent_reply(self._where, reply)

    async def _run_turns(self, call: Call, options: AgentOptions) -> AgentReply:
        """Run an agent whose turns are calls of their own; their notes are also those of the whole."""
        info = replace(call.info, notes=call.notes)
        options = await self._with_started_tools(options, call.notes)
        guard = self._guard(call.messages, _agent_request(options), info)
        reply = await self._port.run(call.messages, replace(options, guard=guard), info=info)
        return sanitize_agent_reply(self._where, reply)

    async def _with_started_tools(self, options: AgentOptions, notes: CallNotes) -> AgentOptions:
        """Return the options with the tools of the model's servers; a failed start is retried as calls are."""
        started = CallNotes()
        try:
            return await self._calls.policy.call(lambda: self._with_tools(options), started)
        finally:
            notes.add(started)

    async def _with_tools(self, options: AgentOptions) -> AgentOptions:
        return options if self._start_tools is None else await self._start_tools(options)

    def _guard(self, messages: Sequence[Message], request: Mapping[str, Any], info: CallInfo) -> TurnGuard:
        endpoint = replace(self._endpoint, port="turn")

        async def guard(send: Callable[[], Awaitable[Turn]], trace: Sequence[Message]) -> Turn:
            async def sanitized() -> Turn:
                return sanitize_turn(self._where, await send())

            async def checked() -> Turn:
                return await ask_turn(self._where, sanitized, endpoint.model.max_tokens)

            return await self._calls.make(Call(endpoint, [*messages, *trace], info, request), checked)

        return guard


def _agent_request(options: AgentOptions) -> dict[str, Any]:
    return {
        "max_turns": options.max_turns,
        "tools": [[tool.name, tool.description, tool.schema] for tool in options.tools],
        "workspace": options.workspace is not None,
    }


class _OfflinePort:
    """A port of a run without calls, whose replies come from the journal."""

    def __init__(self, kind: PortKind) -> None:
        self._kind = kind

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        raise self._offline_error()

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        raise self._offline_error()

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        raise self._offline_error()

    def _offline_error(self) -> PortError:
        message = f"this run makes no calls, and a call reached its {self._kind} port"
        return PortError(message, category=ErrorCategory.PERMANENT)


def _clean_trace(reply: AgentReply) -> AgentReply:
    trace = tuple(Message.from_dict(replace_surrogates_in(one.to_dict())) for one in reply.trace)
    return replace(reply, trace=trace, usage=sanitize_usage(reply.usage))
