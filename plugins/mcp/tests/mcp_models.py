"""Helpers of these tests: models with servers, and calls of their tools."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Message, PortError, Tool, ToolCall
from karenina_mcp import MCPSource
from karenina_toolkit.agents.tools import run_tool

T = TypeVar("T")

SCRIPT = Path(__file__).with_name("talking_server.py")


def talking(*tools: str) -> str:
    """Return the command line of a server that has these tools."""
    return shlex.join([sys.executable, str(SCRIPT), *tools])


def model(servers: Mapping[str, str], **fields: Any) -> ModelConfig:
    """Return a model with these servers."""
    return ModelConfig(id="m", interface="any", model_name="any", mcp_urls_dict=dict(servers), **fields)


def using(model: ModelConfig, use: Callable[[dict[str, Tool]], Awaitable[T]], workspace: Path | None = None) -> T:
    """Return the result of `use` with the model's tools, in one session."""

    async def session() -> T:
        async with MCPSource().open(model, workspace) as tools:
            return await use({tool.name: tool for tool in tools})

    return asyncio.run(session())


async def call(tools: Mapping[str, Tool], name: str, **arguments: Any) -> Message:
    """Return the tool message that answers a call."""
    return await run_tool(ToolCall("c1", name, {"n": 1, **arguments}), tools)


async def outcome(tools: Mapping[str, Tool], name: str) -> Message | PortError:
    """Return the message of a tool call, or the error that ends the agent's run."""
    try:
        return await call(tools, name)
    except PortError as error:
        return error


def saying(model: ModelConfig, *names: str, workspace: Path | None = None) -> list[Message]:
    """Return the results of the tools with these names, called one after another in one session."""

    async def use(tools: dict[str, Tool]) -> list[Message]:
        return [await call(tools, name) for name in names]

    return using(model, use, workspace)
