"""MCP servers and the Claude CLI in bubblewrap's sandbox: what they reach, what they do not, and when they end."""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from command_runs import run_karenina
from mcp_parts import ToolCaller, benchmark, call, configuration
from processes import ends, find_running
from servers import recording_server

from karenina import Outcome, VerificationConfig
from karenina_claude_agent_sdk.agent import ClaudeAgent
from karenina_core import hookimpl
from karenina_core.errors import ConfigError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import AgentOptions, AgentReply, Message, ProgramSandbox, ToolCall
from karenina_core.plugins import Plugins, Selection, installed_plugins
from karenina_mcp import MCPSource
from karenina_sandbox.programs import program_sandbox
from karenina_sandbox.providers.bwrap import SANDBOX
from karenina_sandbox.sandbox import Policy, Sandbox, SandboxError
from karenina_testing.contracts import MessagesAPI
from karenina_testing.contracts.wire_format import KEY
from karenina_toolkit.agents.tools import run_tool
from karenina_toolkit.plugin_lookup import plugins_of

WHY = SANDBOX.unavailable()
pytestmark = pytest.mark.skipif(WHY is not None, reason=str(WHY))

TALKING = Path(__file__).parents[1] / "plugins/mcp/tests/talking_server.py"


def chosen(**settings: Any) -> ProgramSandbox:
    """Return the sandbox of a configuration."""
    config = VerificationConfig(sandbox="bwrap", **settings)
    sandbox = program_sandbox(config, plugins_of(config))
    assert sandbox is not None
    return sandbox


def tell(workspace: Path | None, tools: Sequence[str], *more: str, **options: Any) -> list[str]:
    """Return what the tools of a server in the sandbox say. `more` are further arguments of the server."""
    command = shlex.join([sys.executable, str(TALKING), *tools, *more])
    servers = {"mcp_urls_dict": {"s": command}, "mcp_server_options": {"s": options}}
    model = ModelConfig(id="m", interface="i", model_name="m", **servers)

    async def ask() -> list[str]:
        async with MCPSource().open(model, workspace, chosen(sandbox_mounts=[TALKING])) as found:
            named = {tool.name: tool for tool in found}
            said = [await run_tool(ToolCall("c", name, {"n": 1}), named) for name in tools]
            return [message.content for message in said]

    return asyncio.run(ask())


def test_an_mcp_server_sees_its_workspace_and_declared_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HILLS_TOKEN", "green")
    monkeypatch.setenv("OTHER_TOKEN", "secret")
    folder, environment = tell(tmp_path, ["folder", "environment"], environment=["HILLS_TOKEN"])
    variables = json.loads(environment)
    assert (folder, variables["HILLS_TOKEN"], variables["HOME"]) == (str(tmp_path), "green", "/home/agent")
    assert "secret" not in environment


def test_an_mcp_server_that_ended_is_started_again_in_the_sandbox(tmp_path: Path) -> None:
    assert tell(tmp_path, ["stumble", "process"]) == ["stumble of 1", "2"]
    assert (tmp_path / "fallen").exists()


@pytest.mark.parametrize("network", [False, True])
def test_an_mcp_server_has_no_network_unless_allowed(tmp_path: Path, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        places = [f"127.0.0.1:{server.getsockname()[1]}", "/home/agent"]
        (looked,) = tell(tmp_path, ["reach"], *places, network=network)
    reached, home = json.loads(looked)
    assert (reached, home) == ("seen" if network else "ConnectionRefusedError", "seen")


def test_an_mcp_server_cannot_read_the_folder_beside_its_workspace(tmp_path: Path) -> None:
    hidden, workspace = tmp_path / "hidden", tmp_path / "workspace"
    hidden.mkdir()
    workspace.mkdir()
    (looked,) = tell(workspace, ["reach"], str(hidden))
    assert json.loads(looked) == ["FileNotFoundError"]


def test_a_run_confines_mcp_servers_without_a_workspace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    command = shlex.join([sys.executable, str(TALKING), "folder"])
    with recording_server(ToolCaller([call("folder", n=1)], "(/.+)")) as server:
        models = configuration(server.url, mcp_urls_dict={"s": command})
        config = VerificationConfig(**models, sandbox="bwrap", sandbox_mounts=[TALKING])
        (result,) = benchmark("/home/agent").run_verification(config)
    assert result.outcome == Outcome.CORRECT
    assert "no effect" not in caplog.text


def test_a_server_that_is_not_inside_is_named_before_the_run() -> None:
    models = configuration("http://127.0.0.1:1", mcp_urls_dict={"s": shlex.join([sys.executable, str(TALKING)])})
    problem = f"does not contain {TALKING}, which {sys.executable} needs; add {TALKING.parent} to sandbox_mounts"
    with pytest.raises(ConfigError, match=problem):
        benchmark("x").run_verification(VerificationConfig(**models, sandbox="bwrap"))


def test_no_run_starts_if_the_chosen_sandbox_is_blocked() -> None:
    models = configuration("http://127.0.0.1:1", mcp_urls_dict={"s": "sh"})
    config = VerificationConfig(**models, sandbox="bwrap", plugins={"block": ["sandboxes"]})
    with pytest.raises(ConfigError, match="there is no sandbox 'bwrap'"):
        benchmark("x").run_verification(config)


class Plain:
    """A sandbox that runs only commands that end."""

    name = "plain"
    needs_image = False

    @hookimpl
    def karenina_sandboxes(self) -> list[Plain]:
        return [self]

    def unavailable(self) -> str | None:
        return None

    def describe(self) -> str:
        return self.name

    def identity(self, policy: Policy) -> str:
        return self.name

    def open(self, workspace: Path, policy: Policy, *, in_place: bool = False) -> AbstractAsyncContextManager[Sandbox]:
        raise SandboxError("no command is run")


@pytest.mark.parametrize("name", ["plain", "podman", "docker"])
def test_a_sandbox_that_cannot_confine_programs_is_a_problem(name: str) -> None:
    plugins = installed_plugins(Selection())
    plugins.register(Plain())
    sandbox = program_sandbox(VerificationConfig(sandbox=name, sandbox_image="image"), plugins)
    assert sandbox is not None
    problem = sandbox.problem_of(["/bin/true"]) or ""
    expected = "cannot confine programs that stay open, such as /bin/true; choose bwrap"
    assert expected in problem or (name != "plain" and "cannot be used" in problem)


class Claude(MessagesAPI):
    entry_point = "karenina_claude_agent_sdk:plugin"
    interface = "claude_agent_sdk"


def work_in(workspace: Path, *calls: ToolCall) -> AgentReply:
    """Return the reply of the Claude CLI, whose model makes these calls."""
    wire = Claude()

    async def run(url: str) -> AgentReply:
        port = ClaudeAgent(wire.model(url, extra={"tools": ["Read", "Write", "Bash"]}))
        try:
            return await port.run((Message.user("Go."),), AgentOptions(workspace=workspace, sandbox=chosen()))
        finally:
            await port.aclose()

    with wire.server(wire.saying("", *calls), wire.saying("Done.")) as server:
        reply = asyncio.run(run(server.url))
        assert KEY in server.requests[0].whole
        return reply


NETWORK = """
import socket
for address in (("127.0.0.1", {port}), ("10.255.255.1", 80)):
    try:
        socket.create_connection(address, 1)
        print("CONNECTED")
    except OSError as error:
        print(type(error).__name__)
"""


def test_the_claude_cli_reaches_its_model_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    (home / "secret").write_text("SECRET")
    (workspace / "note.txt").write_text("The code is 4711.")
    with socket.create_server(("127.0.0.1", 0)) as other:
        network = NETWORK.format(port=other.getsockname()[1])
        look = f"ls {Path.home()} /; cat {home}/secret; env; cat /proc/*/environ | tr '\\0' '\\n'"
        stay = "(setsid sleep 86409.25 >/dev/null 2>&1 &); echo started"
        reply = work_in(
            workspace,
            ToolCall("read", "Read", {"file_path": "note.txt"}),
            ToolCall("write", "Write", {"file_path": str(workspace / "new.txt"), "content": "new"}),
            ToolCall("network", "Bash", {"command": f"python -c {shlex.quote(network)}"}),
            ToolCall("look", "Bash", {"command": look}),
            ToolCall("stay", "Bash", {"command": stay}),
        )
    said = {message.tool_call_id: message.content for message in reply.trace if message.role == "tool"}
    assert reply.trace[-1].content == "Done."
    assert "4711" in said["read"]
    assert (workspace / "new.txt").read_text() == "new"
    assert said["network"].split() == ["ConnectionRefusedError", "OSError"]
    assert "HOME=/home/agent" in said["look"]
    assert [one for one in ("SECRET", KEY, "sk-of-somebody-else") if one in said["look"]] == []
    assert "started" in said["stay"]
    assert [process for process in find_running("sleep 86409.25") if not ends(process)] == []


def test_a_claude_cli_outside_the_sandbox_is_named_before_the_run(tmp_path: Path) -> None:
    cli = tmp_path / "claude"
    cli.write_text("#!/bin/sh\n")
    cli.chmod(0o755)
    model = {"id": "a", "interface": "claude_agent_sdk", "model_name": "m", "extra": {"cli_path": str(cli)}}
    settings = {"answering_models": [{**model, "endpoint_base_url": "http://127.0.0.1:1"}], "sandbox": "bwrap"}
    problem = f"the sandbox does not contain {cli}; add {tmp_path} to sandbox_mounts"
    with pytest.raises(ConfigError, match=problem):
        benchmark("x").run_verification(VerificationConfig(**settings))
    file = tmp_path / "config.json"
    file.write_text(json.dumps(settings))
    found = run_karenina("doctor", "--config", file, "--json", plugins=Plugins.discover()).json["findings"]
    assert [one["state"] for one in found if problem in one["text"]] == ["problem"]
