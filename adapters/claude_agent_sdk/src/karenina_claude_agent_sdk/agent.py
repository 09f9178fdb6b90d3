"""The agent port, which runs the Claude CLI in a workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from claude_agent_sdk import McpSdkServerConfig, ToolResultBlock, UserMessage
from mcp.server import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent
from mcp_types import Tool as MCPTool

from karenina_claude_agent_sdk.cli import CLISettings
from karenina_claude_agent_sdk.cli_runs import CLIRunner, refuse_end
from karenina_claude_agent_sdk.conversion import (
    SERVER,
    WireMessage,
    count_attachments,
    reply_of,
    results_in,
    results_of,
    to_wire,
)
from karenina_core.models.ports import NO_INFO, AgentReply, ErrorCategory, Message, PortError, ToolCall, Usage
from karenina_toolkit.agents.tool_loop import AgentClock, TraceSize, empty_ending
from karenina_toolkit.agents.tools import LONGEST_RESULT, run_tool
from karenina_toolkit.attachments.wire import fill

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import claude_agent_sdk

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentOptions, CallInfo, FinishReason, Tool, Turn


def make_tool_server(tools: Mapping[str, Tool], lost: Callable[[PortError], None]) -> McpSdkServerConfig | None:
    """Return an MCP server that offers `tools`, or None without tools. If a tool's server has ended, `lost` gets the
    error, and the CLI a failed result.

    Tools are called as in all other adapters, so that failures have the same messages.
    """
    if not tools:
        return None
    offered = [
        MCPTool(
            name=tool.name,
            description=tool.description,
            input_schema=dict(tool.schema),
            _meta={"anthropic/maxResultSizeChars": 2 * LONGEST_RESULT},
        )
        for tool in tools.values()
    ]

    async def list_tools(_context: Any, _asked: Any) -> ListToolsResult:
        return ListToolsResult(tools=offered)

    async def call_tool(_context: Any, asked: Any) -> CallToolResult:
        """Run a tool of the run. If its server has ended, report this to `lost`, and return a failed result."""
        call = ToolCall("", asked.name, asked.arguments or {})
        try:
            result = await run_tool(call, tools)
        except PortError as error:
            lost(error)
            result = Message.tool(str(error), call, is_error=True)
        return CallToolResult(content=[TextContent(type="text", text=result.content)], is_error=result.is_error)

    server = Server(SERVER, on_list_tools=list_tools, on_call_tool=call_tool)
    return McpSdkServerConfig(type="sdk", name=SERVER, instance=server)


class ClaudeAgent:
    """The agent port. In a workspace, the CLI has its own tools in addition to those of the run.

    The CLI's requests pass through this process. Each turn is therefore exactly one reply, a failed request is retried
    separately, and tool calls in the last turn are not run. Without a workspace, the CLI only has the tools of the run.
    In a workspace, it runs in the run's sandbox, if there is one.
    """

    guards_calls: ClassVar[bool] = True

    def __init__(self, model: ModelConfig) -> None:
        self._runner = CLIRunner(model)

    async def run(self, messages: Sequence[Message], options: AgentOptions, *, info: CallInfo = NO_INFO) -> AgentReply:
        """Run the agent until it answers or reaches a limit, and return its reply. Raises `PortError`, with the trace
        so far as its `partial`, if the run fails.
        """
        runner = self._runner
        own = runner.extra.tools if options.workspace is not None else ()
        brought = self._collect_tools(options, own)
        system, wire = to_wire(messages, tuple(brought))
        time = AgentClock(runner.where, options)
        work = _AgentTask(runner, messages, time.options, tuple(brought))
        setting = CLISettings(
            runner.model_name,
            runner.extra,
            system,
            runner.thinking,
            folder=options.workspace,
            tools=own,
            server=make_tool_server(brought, work.fail),
            sandbox=options.sandbox if options.workspace is not None else None,
        )
        work.attached = count_attachments(wire)
        if work.attached:
            wire = await fill(wire)
        return await time.limit(runner.run(setting, wire, work), work.reply)

    async def aclose(self) -> None:
        """Close the proxy and the connections."""
        await self._runner.aclose()

    def _collect_tools(self, options: AgentOptions, own: Sequence[str]) -> dict[str, Tool]:
        """Return the run's tools by name. Raises `PortError` if a name occurs twice, also among the CLI's `own` tools,
        or if the workspace is not a folder.
        """
        by_name: dict[str, Tool] = {}
        if options.workspace is not None and not options.workspace.is_dir():
            raise self._refused(f"the workspace {options.workspace} is not a folder")
        for tool in options.tools:
            if tool.name in own or by_name.setdefault(tool.name, tool) is not tool:
                raise self._refused(f"two tools are named {tool.name!r}; remove or rename one of them")
        return by_name

    def _refused(self, why: str) -> PortError:
        """Return a permanent error that names the model and the server."""
        return PortError(f"{self._runner.where}: {why}", category=ErrorCategory.PERMANENT)


class _AgentTask:
    """The agent's progress: turns and tool results."""

    def __init__(
        self, runner: CLIRunner, prompt: Sequence[Message], options: AgentOptions, brought: Sequence[str]
    ) -> None:
        self.end: asyncio.Future[AgentReply] = asyncio.get_running_loop().create_future()
        self.usage = Usage()
        self._runner = runner
        self._prompt = prompt
        self._options = options
        self._run_tools = brought
        self._said: list[Message] = []
        self._results: list[dict[str, tuple[str, bool]]] = []  # per turn, because servers may reuse an id
        self._finish_reason: FinishReason = "other"
        self._server_reason: str | None = None
        self._model: str | None = None
        self._asking = asyncio.Lock()
        self.attached = 0
        """The number of attachments that each request must contain."""

    async def answer(self, request: WireMessage, headers: Mapping[str, str]) -> WireMessage | None:
        """Request the next turn, and return it if it calls tools and there are turns left. Otherwise, end the run by
        setting its result, or the request's error, in `end`, and return None. If the turn after tool results stays
        empty, the run ends with an empty turn instead of an error.
        """
        async with self._asking:
            if self.end.done():
                return None
            try:
                turn = await self._request_turn(request, headers)
            except PortError as error:
                ending = empty_ending(error, self.reply().trace)
                if ending is None:
                    self.end.set_exception(error)
                    return None
                turn = ending
            self._record_turn(turn)
            if turn.message.tool_calls and len(self._said) < self._options.max_turns:
                return reply_of(turn, self._run_tools)
            self.end.set_result(self.reply(limit_reached=bool(turn.message.tool_calls)))
            return None

    def fail(self, error: PortError) -> None:
        """End the run with `error`, unless it has already ended."""
        if not self.end.done():
            self.end.set_exception(error)

    def on_message(self, message: claude_agent_sdk.Message) -> None:
        """Record the tool results in a message, except those of subagents. Raises `CLIError` if the message says that
        the CLI has ended.

        The results are recorded here because no later request may contain them.
        """
        refuse_end(message)
        if isinstance(message, UserMessage) and message.parent_tool_use_id is None:
            blocks = [block for block in message.content if isinstance(block, ToolResultBlock)]
            for block in blocks:
                entry = {"type": "tool_result", "tool_use_id": block.tool_use_id, "content": block.content}
                self._record_results(results_of([{**entry, "is_error": bool(block.is_error)}]))

    def reply(self, *, limit_reached: bool = False) -> AgentReply:
        """Return the reply so far, with the given `limit_reached`: its usage, and its trace with tool results after the
        turns that called the tools.
        """
        trace: list[Message] = []
        for message, results in zip(self._said, self._results, strict=True):
            trace.append(message)
            for call in message.tool_calls:
                if call.id in results:
                    text, failed = results[call.id]
                    trace.append(Message.tool(text, call, is_error=failed))
        return AgentReply(
            tuple(trace), self.usage, limit_reached, self._finish_reason, self._model, self._server_reason
        )

    async def _request_turn(self, request: WireMessage, headers: Mapping[str, str]) -> Turn:
        """Record the tool results in a request, and return the next turn, requested through the run's guard if there is
        one. Raises `PortError` if the request fails, the CLI left out an attachment, or the trace is too long.
        """
        self._record_results(results_in(request))
        if count_attachments(request["messages"]) < self.attached:
            raise PortError(
                f"{self._runner.where}: the Claude CLI left out an attachment, probably because an image is damaged; "
                "save the image again",
                category=ErrorCategory.PERMANENT,
            )
        size = TraceSize()
        for message in self.reply().trace:
            size.add(self._runner.where, message)

        async def ask() -> Turn:
            return await self._runner.messages_client.post(request, headers, self._prompt)

        guard = self._options.guard
        return await (guard(ask, self.reply().trace) if guard is not None else ask())

    def _record_results(self, results: Mapping[str, tuple[str, bool]]) -> None:
        """Add tool results to the last turn. Results before the first turn are dropped."""
        if self._results:
            self._results[-1].update(results)

    def _record_turn(self, turn: Turn) -> None:
        """Add a turn to the trace, and its usage to the total.

        The finish reason is that of the last turn, and the model name that of the last turn that has one.
        """
        self._said.append(turn.message)
        self._results.append({})
        self.usage += turn.usage
        self._finish_reason = turn.finish_reason
        self._server_reason = turn.server_reason
        self._model = turn.model or self._model
