"""The objects that a run's items share, and the ports opened for the run.

A port is opened once for each model, called with limits and retries, and closed at the end of the run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final

from karenina_core.data.trust import Trust
from karenina_core.errors import describe_error
from karenina_core.models.adapters import AdapterConfigError, AgentTier
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import (
    NO_USAGE,
    AgentOptions,
    CallInfo,
    ErrorCategory,
    LLMReply,
    Message,
    ModelRequest,
    Port,
    PortError,
)
from karenina_core.text import replace_surrogates
from karenina_engine.calls.call import Call, Endpoint, PortKind
from karenina_engine.calls.call_runner import CallRunner
from karenina_engine.calls.concurrency import Bounds, Concurrency
from karenina_engine.calls.concurrency_limits import ConcurrencyLimits
from karenina_engine.calls.journal_labels import ModelLabel
from karenina_engine.calls.opened_port import OpenedPort, ToolSessions, run_agent, with_zero_temperature
from karenina_engine.calls.program_sandboxes import find_program_sandbox
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.journal.fingerprint import digest_recordings
from karenina_engine.progress.observers import NO_OBSERVERS, Observers
from karenina_engine.results.kept_files import FileStore
from karenina_toolkit.plugin_lookup import find_adapter, prompt_instructions
from karenina_toolkit.stage_support import call_service

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.config import VerificationConfig
    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.plugins import Plugins
    from karenina_core.stages.state import Ask
    from karenina_engine.calls.call import BudgetGuard, CallLedger, ReplyStore
    from karenina_toolkit.plugin_lookup import RegisteredAdapter


_METHODS: Final[Mapping[PortKind, str]] = {"llm": "invoke", "parser": "parse", "agent": "run"}
"""The kinds of ports, each with the method that makes a call."""
MOST_SECONDS_TO_CLOSE: Final = 30.0
"""How long a port may take to close at the end of a run, so that one that never does cannot hold up the results."""
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


logger = logging.getLogger("karenina")


def _default_limits() -> ConcurrencyLimits:
    """Return limits with default bounds for each server and no limit for all servers together."""
    return ConcurrencyLimits(lambda _model: Bounds())


@dataclass(frozen=True, slots=True)
class RunParts:
    """The parts of a run: its plugins, settings and trust, and the objects that limit, store and count its calls.

    Each process that executes items has one. If `offline` is set, models may not be called, and all replies must be in
    the `store`. `ledger` and `budget` may be None. `observers` receive the run's events, and `files` stores the files
    that stages and adapters keep.
    """

    plugins: Plugins
    config: VerificationConfig
    trust: Trust = field(default_factory=Trust)
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    limits: ConcurrencyLimits = field(default_factory=_default_limits)
    observers: Observers = NO_OBSERVERS
    store: ReplyStore | None = None
    ledger: CallLedger | None = None
    budget: BudgetGuard | None = None
    files: FileStore = field(default_factory=lambda: FileStore(None, 0, 0))
    offline: bool = False


def limit_calls(plugins: Plugins, concurrency: Concurrency, patience: float) -> ConcurrencyLimits:
    """Return the limits set by a configuration, within the limits that adapters declare. `patience` is the number of
    seconds after which the run gives up on a server that refuses all calls.
    """

    def bounds(model: ModelConfig) -> Bounds:
        """Return the bounds for calls to a model. For a `ModelLabel`, those that its adapter declares are ignored."""
        declared = (
            find_adapter(plugins, model.interface).spec.concurrency if not isinstance(model, ModelLabel) else None
        )
        return concurrency.bounds(model, declared(model) if declared is not None else None)

    return ConcurrencyLimits(bounds, concurrency.most or inf, patience=patience)


@dataclass(slots=True)
class PortFactory:
    """Opens, calls and closes the ports of a run. This is the `PortProvider` for the pipeline."""

    parts: RunParts
    calls: CallRunner = field(init=False)
    _adapters: dict[str, RegisteredAdapter] = field(default_factory=dict)
    _ports: list[tuple[Port, str]] = field(default_factory=list)
    """Opened ports, each with a description for messages."""
    _by_id: dict[tuple[str, int], tuple[ModelConfig, OpenedPort]] = field(default_factory=dict)
    """Opened ports by kind and id of the model, which is kept so that no other model can get the id."""
    _instructions: dict[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    _needs_agent: dict[int, tuple[ModelConfig, Callable[[CallInfo], bool]]] = field(default_factory=dict)
    _services: dict[str, Endpoint] = field(default_factory=dict)
    _tools: ToolSessions = field(init=False)

    def __post_init__(self) -> None:
        """Create the call runner and the tool sessions."""
        parts = self.parts
        self.calls = CallRunner(
            parts.limits,
            parts.policy,
            parts.store,
            ledger=parts.ledger,
            budget=parts.budget,
            observers=parts.observers,
        )
        self._tools = ToolSessions(parts.plugins)

    @property
    def plugins(self) -> Plugins:
        """The run's plugins."""
        return self.parts.plugins

    def spec(self, model: ModelConfig) -> AdapterSpec:
        """Return the specification of the model's adapter. Raises `PluginError` if the adapter does not exist."""
        return self._adapter(model).spec

    def call(self, request: ModelRequest) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that makes a call and returns the reply. Raises `PortError` if the adapter has no such
        port. The coroutine may raise `PortError` too.
        """
        opened = self._open(request.port, request.model)
        if request.options is not None:
            return run_agent(opened, request, request.options, self.calls)
        call = Call(opened.endpoint, request.messages, request.info, request.schema)
        return self.calls.make(call, lambda: opened.send(request))

    def answers_through_agent(self, model: ModelConfig, info: CallInfo) -> bool:
        """Return whether the answer comes from the agent port: for deep agents, for models with MCP servers (unless
        their answers are recorded), and if the adapter requires it. For a `ModelLabel`, it is read from the journal.
        """
        spec = self.spec(model)
        if (model.mcp_urls_dict and not spec.recorded) or spec.tier is AgentTier.DEEP_AGENT:
            return True
        if isinstance(model, ModelLabel):
            return (info.question_id, info.replicate) in model.conversations
        if spec.needs_agent is None:
            return False
        if id(model) not in self._needs_agent:
            self._needs_agent[id(model)] = model, spec.needs_agent(model)
        return self._needs_agent[id(model)][1](info)

    def recorded(self, model: ModelConfig) -> bool:
        """Return whether the model's answers are recorded."""
        return self.spec(model).recorded

    def instructions(self, task: str, interface: str) -> Sequence[str]:
        """Return the instructions that plugins add to the prompt of `task` for models of `interface`."""
        key = (task, interface)
        if key not in self._instructions:
            self._instructions[key] = prompt_instructions(self.parts.plugins, task, interface)
        return self._instructions[key]

    async def consult(self, service: str, query: str, ask: Ask, info: CallInfo, seconds: float | None = None) -> str:
        """Return a service's reply to `query`, either stored or from `ask`. Raises `PortError` if every attempt fails.
        With `seconds`, there is only one attempt, which may take that long.
        """

        async def request() -> LLMReply:
            """Query the service once, within its time limit, and return its reply, in which lone surrogates are
            replaced. Raises `PortError`, which is permanent if the caller has set the limit.
            """
            try:
                limit = self.parts.config.core.request_timeout if seconds is None else seconds
                return LLMReply(replace_surrogates(await call_service(ask, limit)), NO_USAGE)
            except PortError as error:
                if seconds is None:
                    raise
                raise PortError(str(error), category=ErrorCategory.PERMANENT) from error

        if service not in self._services:
            model = ModelConfig(id=service, interface="service", model_name=service)
            self._services[service] = Endpoint("service", model, service, {})
        reply = await self.calls.make(Call(self._services[service], [Message.user(query)], info), request)
        return reply.text

    def enter_workspace(self, workspace: Path) -> None:
        """Register an item as using agents in the workspace."""
        self._tools.enter(workspace)

    async def leave_workspace(self, workspace: Path) -> None:
        """Unregister an item that has finished with the workspace. When no more items use the workspace, its tools are
        closed.
        """
        await self._tools.leave(workspace)

    async def aclose(self) -> None:
        """Close all tools, then all ports at once, each once. If closing a port fails or takes too long, a warning is
        logged.
        """
        await self._tools.aclose()
        ports = {id(port): (port, name) for port, name in self._ports}
        self._ports.clear()
        self._by_id.clear()
        limit = min(self.parts.config.core.request_timeout, MOST_SECONDS_TO_CLOSE)

        async def close(port: Port, name: str) -> None:
            """Close a port within the time limit, and log a warning if this fails."""
            clock = asyncio.timeout(limit)
            try:
                async with clock:
                    await port.aclose()
            except Exception as error:
                why = f"it took more than {limit:g} s" if clock.expired() else describe_error(error, port)
                logger.warning("%s could not be closed: %s", name, why)

        await asyncio.gather(*(close(port, name) for port, name in ports.values()))

    def identities(self, models: Sequence[ModelConfig]) -> dict[tuple[str, str], list[bytes]]:
        """Return digests of everything that determines replies except the prompt, by port and model id, for the ports
        that the adapters have. Different models with the same id have several digests.
        """
        by_model: dict[tuple[str, str], list[bytes]] = {}
        for model in models:
            for kind in _METHODS:
                if getattr(self.spec(model), kind) is not None:
                    digests = by_model.setdefault((kind, model.id), [])
                    digest = self._endpoint(kind, model).digest
                    digests += [digest] if digest not in digests else []
        return by_model

    def _adapter(self, model: ModelConfig) -> RegisteredAdapter:
        """Return the model's adapter. Raises `PluginError` if the adapter does not exist."""
        if model.interface not in self._adapters:
            self._adapters[model.interface] = find_adapter(self.parts.plugins, model.interface)
        return self._adapters[model.interface]

    def _open(self, kind: PortKind, model: ModelConfig) -> OpenedPort:
        """Return the model's port, opening it on first use. In a run without calls, the returned object contains no
        adapter port. Raises `PortError` if the adapter has no port of this kind.
        """
        key = (kind, id(model))
        if key not in self._by_id:
            start_tools = self._tool_starter(model) if kind == "agent" else None
            offline = self.parts.offline or isinstance(model, ModelLabel)
            port, open_warm = (None, None) if offline else self._open_adapter(kind, model)
            self._by_id[key] = model, OpenedPort(self._endpoint(kind, model), port, open_warm, start_tools)
        return self._by_id[key][1]

    def _open_adapter(self, kind: PortKind, model: ModelConfig) -> tuple[Port, Callable[[], Port] | None]:
        """Return the adapter's port and, for judges at temperature 0, a function that opens it without one. The
        function is None for other models. Raises `PortError` if the adapter has no port of this kind, or if it cannot
        be opened.
        """
        offered = self._adapter(model)
        factory = getattr(offered.spec, kind)
        if factory is None:
            have = ", ".join(offered.spec.ports) or "none"
            raise PortError(
                f"the adapter {model.interface!r} ({offered.distribution} {offered.version}) has no {kind} port "
                f"(available: {have}), which the model {model.id!r} needs here; choose a model with another interface",
                category=ErrorCategory.PERMANENT,
            )

        where = f"the {kind} port of the adapter {model.interface!r} ({offered.distribution} {offered.version})"

        def make(model: ModelConfig) -> Port:
            """Open a port for `model`, which `aclose` will close. Raises `PortError` if the configuration turns out
            not to work, or if the port lacks a method.
            """
            try:
                port: Port = factory(model)
            except AdapterConfigError as error:
                raise PortError(str(error), category=ErrorCategory.PERMANENT) from None
            missing = [name for name in (_METHODS[kind], "aclose") if not callable(getattr(port, name, None))]
            if missing:
                what = f"is a {type(port).__name__} without {' and '.join(missing)}(); correct the adapter"
                raise PortError(f"{where} {what}", category=ErrorCategory.PERMANENT)
            self._ports.append((port, where))
            return port

        bounded = self._with_bounds(model)
        cold = with_zero_temperature(bounded, offered.spec) if kind == "parser" else bounded
        return make(cold), None if cold is bounded else lambda: make(bounded)

    def _with_bounds(self, model: ModelConfig) -> ModelConfig:
        """Return the model with the run's timeouts and size limit, except where the model sets its own."""
        core = self.parts.config.core
        of_run = {name: getattr(core, name) for name in ("request_timeout", "max_reply_bytes", "stream_timeout")}
        update = {name: value for name, value in of_run.items() if getattr(model, name) is None}
        return model.model_copy(update=update) if update else model

    def _tool_starter(self, model: ModelConfig) -> Callable[[AgentOptions], Awaitable[AgentOptions]] | None:
        """Return a function that adds the model's tools, which it starts unless the adapter does, and the sandbox for
        their programs to an agent's options. Returns None for recorded answers.
        """
        spec = self.spec(model)
        if spec.recorded:
            return None
        bounded = self._with_bounds(model)
        sandbox = find_program_sandbox(self.plugins, self.parts.config)

        async def start(options: AgentOptions) -> AgentOptions:
            """Start the model's tools, and return the options with the tools added."""
            options = replace(options, sandbox=sandbox)
            tools = () if spec.starts_tools else await self._tools.tools(bounded, options)
            return replace(options, tools=(*options.tools, *tools))

        return start

    def _endpoint(self, kind: PortKind, model: ModelConfig) -> Endpoint:
        """Return the endpoint of a model's port. Judges have temperature 0 unless the user sets another one. For a
        `ModelLabel`, only the model's id matters.
        """
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
