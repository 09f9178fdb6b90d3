"""A client for the conformance scenarios that connects to a server as a run does and calls each of its tools."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import ToolCall
from karenina_mcp import MCPSource
from karenina_toolkit.agents.tools import run_tool


async def call_all(url: str) -> None:
    """Open a session, call every tool once with some arguments, and close it."""
    options = {"here": {"elicitation": "defaults"}}
    model = ModelConfig(id="m", interface="i", model_name="m", mcp_urls_dict={"here": url}, mcp_server_options=options)
    async with MCPSource().open(model, None) as tools:
        for number, tool in enumerate(tools):
            arguments = {name: _some(field) for name, field in tool.schema.get("properties", {}).items()}
            said = await run_tool(ToolCall(str(number), tool.name, arguments), {tool.name: tool})
            sys.stderr.write(f"{tool.name}: {said.content}\n")


def _some(field: dict[str, Any]) -> object:
    return {"number": 5, "integer": 5, "boolean": True}.get(str(field.get("type")), "some")


if __name__ == "__main__":
    asyncio.run(call_all(sys.argv[-1]))
