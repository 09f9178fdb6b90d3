"""An adapter's port, opened for one model of a run: it sends requests and checks the replies.

Judges are called at temperature 0 if the user set no temperature and the server accepts 0. An agent's run is one call,
or one call per turn if the adapter guards its requests.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anyio import to_thread

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
from karenina_toolkit.files.source_digest import digest_folders
from karenina_toolkit.replies.reply_bounds import sanitize_usage
from karenina_toolkit.structured.reply_checks import check_reply, filtered_reply, receive

if TYPE_CHECKING:
    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.models.model import ModelConfig
    from karenina_engine.calls.call import Endpoint
    from karenina_engine.calls.call_runner import CallRunner

logger = logging.getLogger("karenina")


@dataclass(slots=True)
class OpenedPort:
    """An adapter's port, opened for one model; `port` is None in a run without calls.

    `open_warm` opens the port without a temperature; it is set if this port sends temperature 0 because the user set
    none. `start_tools` adds the tools of the model's servers to an agent's options; it is None if the run starts none.
    """

    endpoint: Endpoint
    port: Any
    open_warm: Callable[[], Any] | None = None
    start_tools: Callable[[AgentOptions], Awaitable[AgentOptions]] | None = None

    @property
    def where(self) -> str:
        """The model's name in messages."""
        return self.endpoint.model.display_string

    async def send(self, request: ModelRequest) -> Any:
        """Return the reply to a request if it can be used. Raises `PortError`."""
        port = self.port
        if port is None:
            message = f"this run makes no calls, but a call reached its {request.port} port"
            raise PortError(message, category=ErrorCategory.PERMANENT)
        try:
            try:
                reply = await request.send(port)
            except PortError as error:
                if not _refuses_temperature(error):
                    raise
                if self.port is port:  # otherwise another call was refused at the same time and has replaced it
                    if self.open_warm is None:
                        raise
                    id = self.endpoint.model.id
                    logger.info("judge %r is called without a temperature: its server refuses 0", id)
                    self.port, self.open_warm = self.open_warm(), None
                reply = await request.send(self.port)
        except PortError as error:
            reply = filtered_reply(request.port, error)
        return check_reply(self.where, reply, self.endpoint.model.max_tokens)


def with_zero_temperature(model: ModelConfig, spec: AdapterSpec) -> ModelConfig:
    """Return a judge's model at temperature 0, or unchanged if it sets a temperature or its adapter takes none."""
    if model.temperature is not None or spec.recorded or (spec.uses is not None and "temperature" not in spec.uses):
        return model
    return model.model_copy(update={"temperature": 0.0})


def _refuses_temperature(error: PortError) -> bool:
    return error.category is ErrorCategory.PERMANENT and "temperature" in str(error).lower()


async def run_agent(opened: OpenedPort, request: ModelRequest, options: AgentOptions, calls: CallRunner) -> AgentReply:
    """Return the result of an agent. Raises `PortError`, with the conversation so far as its `partial`."""
    info = request.info
    asked = _describe(options)
    if options.workspace is not None:
        # Questions may send the same request with different folders: a run belongs to one question, its turns to any.
        asked["question_id"] = info.question_id
        if info.sources:
            asked["files"] = await to_thread.run_sync(digest_folders, info.sources)
    # Judges read what an agent leaves in an answer's workspace; nothing reads a judge's own copy.
    self_contained = options.workspace is None or not info.shared
    composite = bool(getattr(opened.port, "guards_calls", False))
    call = Call(opened.endpoint, request.messages, info, asked, self_contained=self_contained, composite=composite)

    def send() -> Awaitable[AgentReply]:
        if composite:
            return _run_turns(opened, request, options, calls, call.notes)
        return _run_whole(opened, request, options)

    try:
        return await calls.make(call, send)
    except PortError as error:
        if error.partial is not None:
            error.partial = _clean_trace(error.partial)
        raise


async def _run_whole(opened: OpenedPort, request: ModelRequest, options: AgentOptions) -> AgentReply:
    """Run an agent that is limited and retried as a whole."""
    reply: AgentReply = await opened.send(replace(request, options=await _with_tools(opened, options)))
    return reply


async def _run_turns(
    opened: OpenedPort, request: ModelRequest, options: AgentOptions, calls: CallRunner, notes: CallNotes
) -> AgentReply:
    """Run an agent whose turns are calls of their own; what they note is also added to the notes of the whole.

    If starting the agent's tools fails, that is retried as calls are.
    """
    info, started = replace(request.info, notes=notes), CallNotes()
    began = time.monotonic()
    try:
        with_tools = await calls.policy.call(lambda: _with_tools(opened, options), started)
        endpoint, asked = replace(opened.endpoint, port="turn"), _describe(with_tools)

        async def guard(send: Callable[[], Awaitable[Turn]], trace: Sequence[Message]) -> Turn:
            call = Call(endpoint, [*request.messages, *trace], info, asked)
            return await calls.make(call, lambda: receive(opened.where, "turn", send, endpoint.model.max_tokens))

        guarded = replace(request, info=info, options=replace(with_tools, guard=guard))
        reply: AgentReply = await opened.send(guarded)
        return reply
    finally:  # tools also take time before and between the turns
        notes.add(started)
        notes.seconds = notes.work_seconds(time.monotonic() - began - started.waited)


async def _with_tools(opened: OpenedPort, options: AgentOptions) -> AgentOptions:
    """Return the options with the tools of the model's servers, after starting them."""
    return options if opened.start_tools is None else await opened.start_tools(options)


def _describe(options: AgentOptions) -> dict[str, Any]:
    """Return the parts of an agent's options that decide its replies, as JSON values."""
    return {
        "max_turns": options.max_turns,
        "tools": [[tool.name, tool.description, tool.schema] for tool in options.tools],
        "workspace": options.workspace is not None,
    }


def _clean_trace(reply: AgentReply) -> AgentReply:
    trace = tuple(Message.from_dict(replace_surrogates_in(one.to_dict())) for one in reply.trace)
    return replace(reply, trace=trace, usage=sanitize_usage(reply.usage))
