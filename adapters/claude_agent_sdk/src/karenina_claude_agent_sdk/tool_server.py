"""The tools that a run brings, served to the CLI by a server inside this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from claude_agent_sdk import McpSdkServerConfig
from mcp.server import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent
from mcp_types import Tool as MCPTool

from karenina_claude_agent_sdk.conversion import SERVER
from karenina_core.models.ports import Message, PortError, ToolCall
from karenina_toolkit.tools import LONGEST_RESULT, run_tool

if TYPE_CHECKING:
    from karenina_core.models.ports import Tool


def make_tool_server(tools: Mapping[str, Tool], lost: Callable[[PortError], None]) -> McpSdkServerConfig | None:
    """Return an MCP server that offers `tools`, or None without tools. `lost` is called if a tool is gone.

    Tools are called like those of all other adapters, so that the same call fails with the same message.
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
        call = ToolCall("", asked.name, asked.arguments or {})
        try:
            said = await run_tool(call, tools)
        except PortError as error:
            lost(error)
            said = Message.tool(str(error), call, is_error=True)
        return CallToolResult(content=[TextContent(type="text", text=said.content)], is_error=said.is_error)

    server = Server(SERVER, on_list_tools=list_tools, on_call_tool=call_tool)
    return McpSdkServerConfig(type="sdk", name=SERVER, instance=server)
