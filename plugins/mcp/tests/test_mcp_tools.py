"""Which tools of the servers a model gets, and under which names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp_models import call, model, saying, talking, using

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import ErrorCategory, Message, PortError, Tool

BOTH = {"near": talking("look", "walk", "swim"), "far": talking("look", "fly")}
ONE = {"near": BOTH["near"]}


def described(model: ModelConfig) -> dict[str, str]:
    async def use(tools: dict[str, Tool]) -> dict[str, str]:
        return {name: tool.description for name, tool in tools.items()}

    return using(model, use)


@pytest.mark.parametrize(
    ("servers", "fields", "names"),
    [
        (ONE, {}, ["look", "walk", "swim"]),
        (ONE, {"mcp_tool_filter": ["swim"]}, ["swim"]),
        (BOTH, {"mcp_server_options": {"far": {"prefix": "far_"}}}, ["look", "walk", "swim", "far_look", "far_fly"]),
        (
            BOTH,
            {"mcp_server_options": {"far": {"prefix": "far_"}}, "mcp_tool_filter": ["far_look", "walk"]},
            ["walk", "far_look"],
        ),
        (BOTH, {"mcp_tool_filter": ["swim", "fly"]}, ["swim", "fly"]),
        ({"odd": talking("files/read.all")}, {}, ["files_read_all"]),
    ],
)
def test_tools_are_filtered_and_named(servers: dict[str, str], fields: dict[str, Any], names: list[str]) -> None:
    assert list(described(model(servers, **fields))) == names


def test_descriptions_are_replaced_by_either_name() -> None:
    configured = model(
        ONE,
        mcp_server_options={"near": {"prefix": "n_"}},
        mcp_tool_description_overrides={"walk": "Walks slowly.", "n_swim": "Swims."},
    )
    assert described(configured) == {"n_look": "Does look.", "n_walk": "Walks slowly.", "n_swim": "Swims."}


def test_a_tool_is_called_by_its_own_name() -> None:
    (said,) = saying(model(ONE, mcp_server_options={"near": {"prefix": "n_"}}), "n_walk")
    assert said.content == "walk of 1"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "the MCP servers 'near' and 'far' both provide a tool named 'look'; set a prefix for one of the servers"),
        (
            {"mcp_tool_filter": ["wlak"]},
            "mcp_tool_filter names the tool 'wlak', which no server provides; did you mean 'walk'?",
        ),
        (
            {"mcp_tool_filter": ["walk"], "mcp_tool_description_overrides": {"soar": "x"}},
            "overrides names the tool 'soar', which no server provides; available: fly, look, swim, walk",
        ),
    ],
)
def test_unknown_and_ambiguous_tool_names_are_permanent_errors(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(PortError) as caught:
        described(model(BOTH, **fields))
    assert caught.value.category is ErrorCategory.PERMANENT
    assert problem in str(caught.value)


def test_a_filter_separates_names_that_become_the_same() -> None:
    servers = {"odd": talking("查找", "删除")}
    with pytest.raises(
        PortError, match=r"provides '查找' and '删除', which are both '__' for models.* mcp_tool_filter"
    ):
        described(model(servers))
    assert described(model(servers, mcp_tool_filter=["查找"])) == {"__": "Does 查找."}


def test_arguments_are_validated_before_the_call() -> None:
    from karenina_core.models.ports import ToolCall
    from karenina_toolkit.agents.tools import run_tool

    async def use(tools: dict[str, Tool]) -> tuple[str, bool]:
        said = await run_tool(ToolCall("c", "walk", {"n": "far"}), tools)
        return said.content, said.is_error

    content, is_error = using(model(ONE), use)
    assert is_error
    assert content.startswith("the arguments of walk do not match its schema")


def test_keywords_of_a_schema_that_are_null_are_left_out() -> None:
    async def use(tools: dict[str, Tool]) -> tuple[Any, Message]:
        return dict(tools["nulls"].schema), await call(tools, "nulls")

    schema, said = using(model({"near": talking("nulls")}), use)
    assert schema == {"type": "object", "properties": {"n": {"type": ["integer", "null"], "default": None}}}
    assert (said.content, said.is_error) == ("nulls of 1", False)


def test_sessions_may_be_open_beside_each_other() -> None:
    from karenina_mcp import MCPSource

    async def run() -> list[str]:
        async with MCPSource().open(model(ONE), None) as first, MCPSource().open(model(ONE), None) as second:
            return [await tools[0].call({"n": number}) for number, tools in enumerate((first, second))]

    assert asyncio.run(run()) == ["look of 0", "look of 1"]
