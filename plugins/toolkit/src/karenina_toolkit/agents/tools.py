"""An agent's tools, and the execution of its tool calls.

Adapters that run their own tool loop get their tools from `collect_tools` and answer calls with `run_tool`. This way,
all of them offer the same tools and report failures in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import Message, PortError, Tool, ToolCall
from karenina_core.text import did_you_mean, list_names, replace_surrogates
from karenina_toolkit.agents.tool_sources import ToolError
from karenina_toolkit.structured.schema_repair import allows_null, find_mismatches
from karenina_toolkit.traces.formats.openai_chat import UNREADABLE_ARGUMENTS

if TYPE_CHECKING:
    from karenina_core.models.ports import AgentOptions

LONGEST_RESULT = 200_000
"""The maximum number of characters in a tool's result or error. Longer ones are cut off, with a note."""
MOST_ARGUMENTS: Final = 2_000_000
"""The maximum number of characters and values in the arguments of a call. Larger calls are rejected."""
_LONGEST_NAME: Final = 200


class ToolResult(str):
    """The text of a tool's result, for models that cannot see the result's files.

    `attachments` are these files, and `with_attachments` is the text for models that get them.
    """

    attachments: tuple[Attachment, ...] = ()
    with_attachments: str = ""


def collect_tools(options: AgentOptions) -> dict[str, Tool]:
    """Return an agent's tools, keyed by name. They are its workspace's tools, if it has one, and `options.tools`.
    Raises `ValueError` if the workspace is not a folder or if two tools have the same name.
    """
    from karenina_toolkit.agents.workspace_tools import (
        make_workspace_tools,  # it loads anyio, which few adapters need at once
    )

    by_name: dict[str, Tool] = {}
    for tool in (*(make_workspace_tools(options.workspace) if options.workspace is not None else ()), *options.tools):
        other = by_name.setdefault(tool.name, tool)
        if other is not tool:
            raise ValueError(
                f"two tools are named {tool.name!r}, one from {describe_origin(other)} and one from "
                f"{describe_origin(tool)}; omit one of them, or rename one at its source"
            )
    return by_name


def describe_origin(tool: Tool) -> str:
    """Return a description of a tool's origin, for use in messages."""
    stated = getattr(tool, "origin", None)
    return stated if isinstance(stated, str) else f"{type(tool).__module__}.{type(tool).__qualname__}"


async def run_tool(call: ToolCall, tools: Mapping[str, Tool], sees: Collection[str] = ()) -> Message:
    """Run a tool call, and return the tool message, cut off at `LONGEST_RESULT` characters, with the files of the
    result if the model `sees` all of their media types. If the call is invalid or the tool fails, the message contains
    the error, but a `PortError` propagates, because the agent cannot continue without the tool.
    """
    try:
        text = await _result(call, tools)
    except PortError:
        raise
    except ToolError as error:
        return Message.tool(_storable(str(error)), call, is_error=True)
    except Exception as error:  # a third-party tool may fail in any way, and the agent continues
        return Message.tool(_storable(f"{call.name} failed: {type(error).__name__}: {error}"), call, is_error=True)
    attachments: tuple[Attachment, ...] = ()
    if isinstance(text, ToolResult) and all(file.media_type in sees for file in text.attachments):
        attachments, text = text.attachments, text.with_attachments
    message = Message.tool(_storable(text), call)
    return replace(message, attachments=attachments) if attachments else message


def _storable(text: str) -> str:
    """Return a tool's text with unpaired surrogates replaced, cut off at `LONGEST_RESULT` characters, with a note."""
    if len(text) > LONGEST_RESULT:
        text = f"{text[:LONGEST_RESULT]}\n[cut off: {LONGEST_RESULT} of {len(text)} characters are shown]"
    return replace_surrogates(text)


def measure_size(value: object) -> int:
    """Return the size of a JSON value: the number of characters in its strings, plus one for each value and key."""
    size = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        size += 1
        if isinstance(item, str):
            size += len(item)
        elif isinstance(item, Mapping):
            waiting += item.keys()
            waiting += item.values()
        elif isinstance(item, (list, tuple)):
            waiting += item
    return size


async def _result(call: ToolCall, tools: Mapping[str, Tool]) -> str:
    """Check a call against the tool's schema, run the tool, and return its result. Null arguments are omitted unless
    the schema allows null. Raises `ToolError` if the tool is unknown, or if the arguments are unreadable, too large or
    invalid; errors from the tool itself propagate.
    """
    tool = tools.get(call.name)
    if len(call.name) > _LONGEST_NAME:
        raise ToolError(f"there is no tool with a name of {len(call.name)} characters: {call.name[:_LONGEST_NAME]}...")
    if tool is None:
        near = did_you_mean(call.name, tools, f"; there are: {list_names(tools)}")
        raise ToolError(f"there is no tool {call.name!r}{near}")
    if set(call.arguments) == {UNREADABLE_ARGUMENTS}:
        raise ToolError(f"the arguments of {call.name} are not a JSON object; call it again with one")
    if measure_size(call.arguments) > MOST_ARGUMENTS:
        raise ToolError(f"the arguments of {call.name} are too large: {MOST_ARGUMENTS} characters are the limit")
    # Models write null for an argument that they leave out; some tools do accept null.
    properties = tool.schema.get("properties", {})
    arguments = {
        name: value
        for name, value in call.arguments.items()
        if value is not None or (name in properties and allows_null(properties[name], tool.schema))
    }
    problems = find_mismatches(arguments, tool.schema)
    if problems:
        raise ToolError(f"the arguments of {call.name} do not match its schema: {'; '.join(problems)}")
    return await tool.call(arguments)
