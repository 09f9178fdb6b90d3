"""The ports and tools that a run opens for its models.

Judges are called at temperature 0 unless the user sets a temperature or the server rejects this one. An agent's run is
made as a single call, or as one call per turn if its adapter supports that. Tool sources are opened once per workspace
and shared by the agents that use them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from karenina_core.errors import describe_error
from karenina_core.models.ports import (
    AgentOptions,
    AgentReply,
    CallNotes,
    ErrorCategory,
    Message,
    ModelRequest,
    PortError,
    Turn,
)
from karenina_core.text import replace_surrogates_in
from karenina_engine.calls.call import Call
from karenina_engine.calls.hookspecs import karenina_tool_sources
from karenina_toolkit.agents.tool_sources import ToolSource
from karenina_toolkit.files.source_digest import digest_folders
from karenina_toolkit.plugin_lookup import registered_adapters
from karenina_toolkit.replies.reply_bounds import sanitize_usage
from karenina_toolkit.structured.reply_checks import check_reply, filtered_reply, receive

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Tool
    from karenina_core.plugins import Plugins
    from karenina_engine.calls.call import Endpoint
    from karenina_engine.calls.call_runner import CallRunner


_Key = tuple[int, str, "Path | None"]
_OWN_FIELDS = ("mcp_urls_dict", "mcp_tool_filter", "mcp_tool_description_overrides", "mcp_server_options")


logger = logging.getLogger("karenina")


@dataclass(slots=True)
class OpenedPort:
    """An adapter's port, opened for one model.

    `port` is None if the run makes no calls. `open_warm` reopens the port without a temperature. It is only set if
    temperature 0 is the default rather than the user's choice. `start_tools` adds the sandbox for programs and the
    tools of the model's MCP servers to an agent's options. It is None if the answers are recorded.
    """

    endpoint: Endpoint
    port: Any
    open_warm: Callable[[], Any] | None = None
    start_tools: Callable[[AgentOptions], Awaitable[AgentOptions]] | None = None
    where: str = field(init=False)
    """The model's name for use in messages."""

    def __post_init__(self) -> None:
        self.where = self.endpoint.model.display_string

    async def send(self, request: ModelRequest) -> Any:
        """Send a request and return the reply if it is usable. A request that the provider's content filter blocks gets
        an empty reply, unless it is for a whole agent run. Raises `PortError` if the call fails or the reply is
        unusable. If the server rejects temperature 0, the request is sent again without a temperature, and so are all
        later ones.
        """
        port = self.port
        if port is None:
            message = f"this run makes no model calls, but a call was made through its {request.port} port"
            raise PortError(message, category=ErrorCategory.PERMANENT)
        try:
            try:
                reply = await self._ask(port, request)
            except PortError as error:
                if not _refuses_temperature(error):
                    raise
                if self.port is port:  # otherwise another call was refused at the same time and has replaced it
                    if self.open_warm is None:
                        raise
                    id = self.endpoint.model.id
                    logger.info("judge %r is called without a temperature because its server refuses temperature 0", id)
                    self.port, self.open_warm = self.open_warm(), None
                reply = await self._ask(self.port, request)
        except PortError as error:
            reply = filtered_reply(request.port, error)
        return check_reply(self.where, reply, self.endpoint.model.max_tokens, request.port)

    def _ask(self, port: Any, request: ModelRequest) -> Awaitable[Any]:
        """Return an awaitable that sends the request to an adapter's port. Raises `PortError` if the port's method
        cannot be called with it, or is not async. Adapters may not be type-checked.
        """
        what = f"the {request.port} port of the adapter of {self.where}"
        try:
            asking: object = request.send(port)
        except PortError:
            raise
        except Exception as error:
            why = f"{what} cannot be called: {describe_error(error, port)}; correct the adapter"
            raise PortError(why, category=ErrorCategory.PERMANENT) from error
        if not isawaitable(asking):
            why = f"{what} returned {type(asking).__name__} at once; write its method with async def"
            raise PortError(why, category=ErrorCategory.PERMANENT)
        return asking


def with_zero_temperature(model: ModelConfig, spec: AdapterSpec) -> ModelConfig:
    """Return a judge's model with its temperature set to 0. The model is returned unchanged if it has a temperature of
    its own, or if its adapter replays recordings or does not use a temperature.
    """
    if model.temperature is not None or spec.recorded or (spec.uses is not None and "temperature" not in spec.uses):
        return model
    return model.model_copy(update={"temperature": 0.0})


def _refuses_temperature(error: PortError) -> bool:
    """Return whether the error message mentions the temperature."""
    return error.category is ErrorCategory.PERMANENT and "temperature" in str(error).lower()


async def run_agent(opened: OpenedPort, request: ModelRequest, options: AgentOptions, calls: CallRunner) -> AgentReply:
    """Run an agent to completion and return its reply, or return the stored reply to the same request and restore the
    work recorded with it. Raises `PortError` if the agent fails, with the conversation so far as `partial`.
    """
    info = request.info
    asked = _describe(options)
    if options.workspace is not None:
        # Several questions may send the same request for different folders, so the question is part of the agent's run.
        asked["question_id"] = info.question_id
        if info.sources:
            asked["files"] = await to_thread.run_sync(digest_folders, info.sources)
    # Judges read what an agent leaves in an answer's workspace; nothing reads a judge's own copy. The state of tools
    # in a session is lost when a run is stopped, so a resumed run takes the earlier turns again.
    self_contained = options.session is None and (options.workspace is None or not info.shared)
    composite = bool(getattr(opened.port, "guards_calls", False))
    call = Call(opened.endpoint, request.messages, info, asked, self_contained=self_contained, composite=composite)
    in_place = False

    async def send() -> AgentReply:
        """Run the agent, one turn at a time if the call is composite, and record its work in the workspace. The work is
        part of the reply, so that both are stored in one row of the journal.
        """
        nonlocal in_place
        if composite:
            reply = await _run_turns(opened, request, options, calls, call.notes)
        else:
            reply = await _run_whole(opened, request, options)
        if options.recorder is None or reply.recorded is not None:
            return reply  # a recording contains the work
        in_place = True
        return replace(reply, recorded=await options.recorder.record())

    try:
        reply = await calls.make(call, send)
        if options.recorder is not None and reply.recorded is not None and not in_place:
            await options.recorder.restore(reply.recorded)
    except PortError as error:
        if error.partial is not None:
            error.partial = _clean_trace(error.partial)
        raise
    return reply


async def _run_whole(opened: OpenedPort, request: ModelRequest, options: AgentOptions) -> AgentReply:
    """Run an agent as a single call. Raises `PortError` if it fails."""
    reply: AgentReply = await opened.send(request._replace(options=await _with_tools(opened, options)))
    return reply


async def _run_turns(
    opened: OpenedPort, request: ModelRequest, options: AgentOptions, calls: CallRunner, notes: CallNotes
) -> AgentReply:
    """Run an agent with a separate call for each turn, and add the notes of these calls to `notes`. If the agent's
    tools fail to start, starting them is retried like a failed call.
    """
    info, started = replace(request.info, notes=notes), CallNotes()
    began = time.monotonic()
    try:
        with_tools = await calls.policy.call(lambda: _with_tools(opened, options), started)
        endpoint, asked = replace(opened.endpoint, port="turn"), _describe(with_tools)

        async def guard(send: Callable[[], Awaitable[Turn]], trace: Sequence[Message]) -> Turn:
            """Make one turn as a separate call that includes the conversation so far."""
            call = Call(endpoint, [*request.messages, *trace], info, asked)
            return await calls.make(call, lambda: receive(opened.where, "turn", send, endpoint.model.max_tokens))

        guarded = request._replace(info=info, options=replace(with_tools, guard=guard))
        reply: AgentReply = await opened.send(guarded)
        return reply
    finally:  # tools also take time before and between the turns
        notes.add(started)
        notes.seconds = notes.work_seconds(time.monotonic() - began - started.waited)


async def _with_tools(opened: OpenedPort, options: AgentOptions) -> AgentOptions:
    """Start the model's tool servers, and return the options with their tools added. Raises `PortError` if the servers
    cannot be started.
    """
    return options if opened.start_tools is None else await opened.start_tools(options)


def _describe(options: AgentOptions) -> dict[str, Any]:
    """Return the options that determine an agent's replies (turns, tools and whether it has a workspace) as
    JSON-compatible data.
    """
    return {
        "max_turns": options.max_turns,
        "tools": [[tool.name, tool.description, tool.schema] for tool in options.tools],
        "workspace": options.workspace is not None,
    }


def _clean_trace(reply: AgentReply) -> AgentReply:
    """Replace lone surrogates in an agent's trace, and correct invalid usage."""
    trace = tuple(Message.from_dict(replace_surrogates_in(message.to_dict())) for message in reply.trace)
    return replace(reply, trace=trace, usage=sanitize_usage(reply.usage))


@dataclass(slots=True)
class ToolSessions:
    """The open tool sources of a run.

    There is one session for each combination of source, workspace and `mcp_` fields. Models with the same `mcp_` fields
    share it. With a workspace, a session lasts as long as items are using the workspace. Otherwise it lasts as long as
    the run or, if an agent is run several times in a conversation, as long as `AgentOptions.session` is in use.
    """

    plugins: Plugins
    _open: dict[_Key, _Session] = field(default_factory=dict)
    _users: dict[Path, int] = field(default_factory=dict)
    _closing: set[asyncio.Task[None]] = field(default_factory=set)

    async def tools(self, model: ModelConfig, options: AgentOptions) -> tuple[Tool, ...]:
        """Return the tools configured for the model. They are opened in the workspace of `options` or, without a
        workspace, for its session. Raises `PortError` if a source cannot be opened. The next call then tries again.
        """
        sources = [source for source in list_tool_sources(self.plugins) if source.applies_to(model)]
        opened = [await self._session(source, model, options) for source in sources]
        return tuple(tool for tools in opened for tool in tools)

    def enter(self, workspace: Path) -> None:
        """Register an item as using the workspace. Call `leave` when the item has finished."""
        self._users[workspace] = self._users.get(workspace, 0) + 1

    async def leave(self, workspace: Path) -> None:
        """Unregister an item that has finished with the workspace. When no more items use the workspace, its sources
        are closed.
        """
        left = self._users.get(workspace, 0) - 1
        if left > 0:
            self._users[workspace] = left
            return
        self._users.pop(workspace, None)
        await self._close([key for key in self._open if key[2] == workspace])

    async def aclose(self) -> None:
        """Close all sources. If a source fails to close, a warning is logged and the others are closed."""
        self._users.clear()
        await self._close(list(self._open))
        if self._closing:  # workspaces whose item was cancelled while it waited for them to close
            await asyncio.wait(self._closing)

    async def _session(self, source: ToolSource, model: ModelConfig, options: AgentOptions) -> Sequence[Tool]:
        """Return the tools of a source, opening the source if necessary. Raises `PortError` if it cannot be opened. The
        next call then tries again.
        """
        stated = model.model_dump_json(include=set(_OWN_FIELDS))
        key = (id(source), stated, options.workspace or options.session)  # two distributions may use the same name
        session = self._open.get(key)
        if session is None:
            session = self._open[key] = _Session(source, model, options)
        try:
            return await asyncio.shield(session.tools)
        except PortError:
            if self._open.get(key) is session:
                del self._open[key]
            raise

    async def _close(self, keys: Sequence[_Key]) -> None:
        """Close the sessions with the given keys, and wait until they are closed."""
        ending = {self._open.pop(key).end() for key in keys}
        if not ending:
            return
        self._closing |= ending
        await asyncio.wait(ending)
        self._closing -= ending


class _Session:
    """An open source, held open by a task of its own.

    The same task has to enter and exit the source.
    """

    def __init__(self, source: ToolSource, model: ModelConfig, options: AgentOptions) -> None:
        self.tools: asyncio.Future[Sequence[Tool]] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._hold(source, model, options), name=f"tools of {source.name}")

    def end(self) -> asyncio.Task[None]:
        """Tell the task that holds the source to close it, and return this task, to wait for. If the source is still
        being opened, the task is cancelled.
        """
        self._over.set()
        if not self.tools.done():
            self._task.cancel()
        return self._task

    async def _hold(self, source: ToolSource, model: ModelConfig, options: AgentOptions) -> None:
        """Open the source, set its tools as the result of `tools`, and keep it open until `end` is called. Errors are
        set on `tools` instead of being raised.
        """
        try:
            async with source.open(model, options.workspace, options.sandbox) as tools:
                self.tools.set_result(tools)
                await self._over.wait()
        except PortError as error:
            self._fail(source, error)
        except asyncio.CancelledError:
            self.tools.cancel()
            raise
        except Exception as error:
            self._fail(source, error)

    def _fail(self, source: ToolSource, error: Exception) -> None:
        """Set an error on the future `tools`, as a `PortError`. If the source is already open, only log a warning."""
        if self.tools.done():
            logger.warning("the tools of %s could not be closed: %s", source.name, error, exc_info=error)
            return
        if not isinstance(error, PortError):
            message = f"the tool source {source.name!r} failed: {type(error).__name__}: {error}"
            error = PortError(message, category=ErrorCategory.PERMANENT)
        self.tools.set_exception(error)
        self.tools.exception()  # retrieve it, since a caller that was cancelled meanwhile does not


def list_tool_sources(plugins: Plugins) -> list[ToolSource]:
    """Return the tool sources for agents, sorted by name and distribution."""
    offers = sorted(
        plugins.offers(karenina_tool_sources, ToolSource), key=lambda offer: (offer.value.name, offer.distribution)
    )
    return [offer.value for offer in offers]


def find_tool_problems(plugins: Plugins, model: ModelConfig, spec: AdapterSpec) -> Iterator[str]:
    """Yield a message for each reason why a model cannot use its tools, without starting any of them. For adapters that
    replay recordings or start tools themselves, nothing is checked.
    """
    if spec.recorded or spec.starts_tools:
        return
    stated = [name for name in _OWN_FIELDS[1:] if getattr(model, name)]
    if stated and not model.mcp_urls_dict:
        yield f"{stated[0]} is set, but no MCP servers are configured; set mcp_urls_dict, or remove the setting"
    sources = [source for source in list_tool_sources(plugins) if source.applies_to(model)]
    if model.mcp_urls_dict and not sources:
        yield _explain_missing_plugin(plugins)
    if (sources or model.mcp_urls_dict) and spec.agent is None:
        able = sorted(
            adapter.spec.interface
            for adapter in registered_adapters(plugins)
            if adapter.spec.agent and not adapter.spec.recorded
        )
        yield (
            f"tools are configured, but the adapter {spec.interface!r} has no agent port to use them; adapters with "
            f"an agent port: {', '.join(able) or 'none installed'}"
        )
    for source in sources:
        try:
            source.check(model)
        except ValueError as error:
            yield str(error)


def _explain_missing_plugin(plugins: Plugins) -> str:
    """Return an error message for a model with MCP servers if no plugin can start them."""
    from karenina_core.catalog import read_catalog

    why = "; or ".join(plugins.why_absent(owner) for owner in sorted(set(read_catalog()["tool_sources"].values())))
    return f"mcp_urls_dict lists MCP servers, but no plugin for them is available: {why}"
