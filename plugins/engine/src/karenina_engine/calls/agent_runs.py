"""Runs of agents: as one call, or as one call for each turn if the adapter guards its requests."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from karenina_core.models.ports import AgentOptions, AgentReply, CallNotes, Message, ModelRequest, PortError, Turn
from karenina_core.text import replace_surrogates_in
from karenina_engine.calls.call import Call
from karenina_toolkit.reply_checks import receive
from karenina_toolkit.reply_sanitizer import sanitize_usage
from karenina_toolkit.source_digest import digest_folders

if TYPE_CHECKING:
    from karenina_engine.calls.call_runner import CallRunner
    from karenina_engine.calls.opened_port import OpenedPort


async def run_agent(opened: OpenedPort, request: ModelRequest, options: AgentOptions, calls: CallRunner) -> AgentReply:
    """Return the result of an agent. Raises `PortError`, with the conversation so far as its `partial`."""
    info = request.info
    asked = _describe(options)
    if options.workspace is not None:
        # Questions may send the same request with different folders: a run is for one question, its turns for any.
        asked["question_id"] = info.question_id
        if info.sources:
            asked["files"] = await to_thread.run_sync(digest_folders, info.sources)
    # Judges read what an agent leaves in the workspace of an answer; nothing reads a judge's own copy.
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
    """Run an agent whose turns are calls of their own; their notes are also those of the whole.

    A failed start of its tools is retried as calls are.
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
    finally:  # the tools work before the turns and between them
        notes.add(started)
        notes.seconds = notes.work_seconds(time.monotonic() - began - started.waited)


async def _with_tools(opened: OpenedPort, options: AgentOptions) -> AgentOptions:
    """Return the options with the tools of the model's servers, which are started."""
    return options if opened.start_tools is None else await opened.start_tools(options)


def _describe(options: AgentOptions) -> dict[str, Any]:
    """Return what of an agent's options decides its replies, as JSON values."""
    return {
        "max_turns": options.max_turns,
        "tools": [[tool.name, tool.description, tool.schema] for tool in options.tools],
        "workspace": options.workspace is not None,
    }


def _clean_trace(reply: AgentReply) -> AgentReply:
    trace = tuple(Message.from_dict(replace_surrogates_in(one.to_dict())) for one in reply.trace)
    return replace(reply, trace=trace, usage=sanitize_usage(reply.usage))
