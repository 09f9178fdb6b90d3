"""Tests of the tools of agents: who gets them, how often they are started, and when they are closed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from karenina_core import ModelConfig, hookimpl
from karenina_core.catalog import install_command
from karenina_core.config import VerificationConfig
from karenina_core.errors import ConfigError
from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import (
    NO_INFO,
    AgentOptions,
    ErrorCategory,
    Message,
    ModelRequest,
    PortError,
    ProgramSandbox,
    Tool,
)
from karenina_core.plugins import Plugins
from karenina_engine.calls.program_sandboxes import check_programs
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.check.stage_checks import check_models
from karenina_engine.run.port_factory import PortFactory, RunParts
from karenina_testing import ScriptedModels
from karenina_toolkit.agents.tool_sources import ToolSource

SERVERS = {"hills": "hill-server"}
AT_ONCE = RetryPolicy(base=0.0)


@dataclass(frozen=True)
class Look:
    """A tool that tells where it works."""

    where: str
    name: str = "look"
    description: str = "Looks."
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})

    async def call(self, arguments: Mapping[str, Any]) -> str:
        return self.where


@dataclass(eq=False)
class Hills:
    """A source that counts what it opens. `failures` are raised first, one an opening."""

    name: str = "hills"
    failures: list[Exception] = field(default_factory=list)
    opened: list[Path | None] = field(default_factory=list)
    closed: list[Path | None] = field(default_factory=list)
    sandboxes: list[ProgramSandbox | None] = field(default_factory=list)
    attempts: int = 0

    @hookimpl
    def karenina_tool_sources(self) -> Sequence[ToolSource]:
        return [self]

    def applies_to(self, model: ModelConfig) -> bool:
        return bool(model.mcp_urls_dict)

    def check(self, model: ModelConfig) -> None:
        if "cliffs" in (model.mcp_urls_dict or {}):
            raise AdapterConfigError("no cliffs here")

    def programs(self, model: ModelConfig) -> Sequence[Sequence[str]]:
        return [[address] for address in (model.mcp_urls_dict or {}).values()]

    def open(
        self, model: ModelConfig, workspace: Path | None, sandbox: ProgramSandbox | None = None
    ) -> AbstractAsyncContextManager[Sequence[Tool]]:
        self.sandboxes.append(sandbox)
        return self._open(workspace)

    @asynccontextmanager
    async def _open(self, workspace: Path | None) -> AsyncIterator[Sequence[Tool]]:
        self.attempts += 1
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        self.opened.append(workspace)
        task = asyncio.current_task()
        yield [Look(str(workspace))]
        assert asyncio.current_task() is task
        self.closed.append(workspace)


def hub_with(source: Hills, models: ScriptedModels) -> PortFactory:
    plugins = Plugins()
    plugins.register(models)
    plugins.register(source)
    return PortFactory(RunParts(plugins, VerificationConfig(request_timeout=10.0), policy=AT_ONCE))


async def ask(hub: PortFactory, model: ModelConfig, workspace: Path | None = None) -> None:
    await hub.call(ModelRequest(model, [Message.user("Look!")], NO_INFO, options=AgentOptions(workspace=workspace)))


def tools_given(models: ScriptedModels) -> list[list[str]]:
    return [[tool.name for tool in one.options.tools] for one in models.requests if one.options is not None]


def test_agents_of_one_run_share_tools_until_the_run_ends() -> None:
    source, models = Hills(), ScriptedModels(wants_tools=True)
    one, other = (models.model(id, mcp_urls_dict=SERVERS) for id in ("one", "other"))

    async def run() -> None:
        hub = hub_with(source, models)
        await asyncio.gather(*(ask(hub, model) for model in (one, other, one)))
        assert source.closed == []
        await hub.aclose()

    asyncio.run(run())
    assert tools_given(models) == [["look"]] * 3
    assert (source.opened, source.closed) == ([None], [None])


def test_models_with_different_tool_settings_share_no_session() -> None:
    source, models = Hills(), ScriptedModels(wants_tools=True)
    plain, filtered = (
        models.model(id, mcp_urls_dict=SERVERS, mcp_tool_filter=f) for id, f in (("a", None), ("b", ["x"]))
    )

    async def run() -> None:
        hub = hub_with(source, models)
        await ask(hub, plain)
        await ask(hub, filtered)
        await hub.aclose()

    asyncio.run(run())
    assert source.opened == source.closed == [None, None]


def test_sources_with_the_same_name_are_both_opened() -> None:
    mine, theirs, models = Hills(), Hills(), ScriptedModels(wants_tools=True)
    hub = hub_with(mine, models)
    hub.plugins.register(theirs, distribution="their-hills", version="1")

    async def run() -> None:
        await ask(hub, models.model(mcp_urls_dict=SERVERS))
        await hub.aclose()

    asyncio.run(run())
    assert (mine.opened, theirs.opened) == ([None], [None])
    assert (mine.closed, theirs.closed) == ([None], [None])


def test_model_without_servers_gets_no_tools() -> None:
    source, models = Hills(), ScriptedModels(wants_tools=True)

    async def run() -> None:
        hub = hub_with(source, models)
        await ask(hub, models.model())
        await hub.aclose()

    asyncio.run(run())
    assert tools_given(models) == [[]]
    assert source.attempts == 0


def test_an_adapter_that_gets_the_tools_itself_is_given_none() -> None:
    source, models = Hills(), ScriptedModels(wants_tools=False)

    async def run() -> None:
        hub = hub_with(source, models)
        await ask(hub, models.model(mcp_urls_dict=SERVERS))
        await hub.aclose()

    asyncio.run(run())
    assert (tools_given(models), source.attempts) == ([[]], 0)


def test_tools_of_a_workspace_end_when_its_last_user_leaves(tmp_path: Path) -> None:
    source, models = Hills(), ScriptedModels(wants_tools=True)
    model = models.model(mcp_urls_dict=SERVERS)
    here, there = tmp_path / "here", tmp_path / "there"

    async def run() -> None:
        hub = hub_with(source, models)
        for workspace in (here, here, there):
            hub.enter_workspace(workspace)
        await asyncio.gather(ask(hub, model, here), ask(hub, model, here), ask(hub, model, there))
        assert sorted(map(str, source.opened)) == [str(here), str(there)]
        await hub.leave_workspace(here)
        assert source.closed == []
        await hub.leave_workspace(here)
        assert source.closed == [here]
        await hub.aclose()

    asyncio.run(run())
    assert source.closed == [here, there]


def test_failed_start_of_tools_is_retried_as_calls_are() -> None:
    lost = PortError("no road to the hills", category=ErrorCategory.CONNECTION)
    source, models = Hills(failures=[lost]), ScriptedModels(wants_tools=True)

    async def run() -> None:
        hub = hub_with(source, models)
        await ask(hub, models.model(mcp_urls_dict=SERVERS))
        await hub.aclose()

    asyncio.run(run())
    assert (source.attempts, source.opened, source.closed) == (2, [None], [None])


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (PortError("closed for good", category=ErrorCategory.PERMANENT), "closed for good"),
        (KeyError("map"), "the tool source 'hills' failed: KeyError: 'map'"),
    ],
)
def test_tools_that_never_start_are_an_error_of_all_waiters(failure: Exception, said: str) -> None:
    source, models = Hills(failures=[failure]), ScriptedModels(wants_tools=True)
    model = models.model(mcp_urls_dict=SERVERS)

    async def run() -> list[Any]:
        hub = hub_with(source, models)
        outcomes = await asyncio.gather(ask(hub, model), ask(hub, model), return_exceptions=True)
        await hub.aclose()
        return outcomes

    one, other = asyncio.run(run())
    assert str(one) == str(other) == said
    assert isinstance(one, PortError)
    assert one.category is ErrorCategory.PERMANENT
    assert models.requests == []


def test_run_cancelled_while_tools_open_leaves_none_open() -> None:
    source, models = Hills(), ScriptedModels(wants_tools=True)

    async def run() -> None:
        hub = hub_with(source, models)
        waiting = asyncio.create_task(ask(hub, models.model(mcp_urls_dict=SERVERS)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await hub.aclose()
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(run())
    assert source.opened == source.closed


def without_source(plugins: Plugins) -> None:
    pass


def with_source(plugins: Plugins) -> None:
    plugins.register(Hills())


@pytest.mark.parametrize(
    ("prepare", "fields", "wants_tools", "problem"),
    [
        (with_source, {"mcp_urls_dict": SERVERS}, True, None),
        (without_source, {"mcp_urls_dict": SERVERS}, False, None),
        (
            without_source,
            {"mcp_urls_dict": SERVERS},
            True,
            re.escape(f"is not installed: {install_command('karenina-mcp')}"),
        ),
        (with_source, {"mcp_urls_dict": {"cliffs": "x"}}, True, "answering model 'scripted': no cliffs here"),
        (with_source, {"mcp_tool_filter": ["look"]}, True, "mcp_tool_filter is set, but no MCP servers are configured"),
    ],
)
def test_problems_with_tools_are_reported_before_a_run(
    prepare: Callable[[Plugins], None], fields: dict[str, Any], wants_tools: bool, problem: str | None
) -> None:
    models, plugins = ScriptedModels(wants_tools=wants_tools), Plugins()
    plugins.register(models)
    prepare(plugins)
    if problem is None:
        check_models(plugins, [("answering model", models.model(**fields))])
        return
    with pytest.raises(ConfigError, match=problem):
        check_models(plugins, [("answering model", models.model(**fields))])


def test_tools_require_an_adapter_with_an_agent_port() -> None:
    models = ScriptedModels(wants_tools=True)
    (spec,) = models.karenina_adapters()
    textual = type(
        "Textual",
        (),
        {
            "karenina_adapters": staticmethod(
                hookimpl(lambda: [replace(spec, agent=None)], specname="karenina_adapters")
            )
        },
    )()
    plugins = Plugins()
    plugins.register(textual)
    plugins.register(Hills())
    with pytest.raises(ConfigError, match="has no agent port"):
        check_models(plugins, [("judge", models.model(mcp_urls_dict=SERVERS))])


class Box:
    """A sandbox that accepts one program."""

    @hookimpl
    def karenina_program_sandbox(self, config: VerificationConfig, plugins: Plugins) -> object:
        return self

    def problem_of(self, command: Sequence[str]) -> str | None:
        return None if command == ["hill-server"] else f"{command[0]} is not inside"


def test_tools_and_agents_of_a_run_get_its_sandbox() -> None:
    box, source, models = Box(), Hills(), ScriptedModels(wants_tools=True)

    async def run() -> None:
        hub = hub_with(source, models)
        hub.plugins.register(box)
        await ask(hub, models.model(mcp_urls_dict=SERVERS))
        await hub.aclose()

    asyncio.run(run())
    assert source.sandboxes == [box]
    assert [one.options.sandbox for one in models.requests if one.options is not None] == [box]


def test_programs_that_cannot_run_in_the_sandbox_are_reported_before_a_run() -> None:
    models, plugins = ScriptedModels(wants_tools=True), Plugins()
    plugins.register(models)
    plugins.register(Hills())
    servers = {**SERVERS, "lakes": "lake-server"}
    named = [
        ("judge", models.model("one", mcp_urls_dict=SERVERS)),
        ("judge", models.model("two", mcp_urls_dict=servers)),
    ]
    check_programs(plugins, VerificationConfig(), named)
    plugins.register(Box())
    with pytest.raises(ConfigError, match="judge 'two': lake-server is not inside") as caught:
        check_programs(plugins, VerificationConfig(), named)
    assert len(caught.value.problems) == 1
