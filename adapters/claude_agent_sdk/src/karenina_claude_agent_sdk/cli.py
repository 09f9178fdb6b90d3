"""Running of the CLI, isolated from the user's configuration and the environment."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ClaudeSDKError, ResultMessage

from karenina_claude_agent_sdk.cli_process import CLIProcess
from karenina_claude_agent_sdk.conversion import SERVER, WireMessage
from karenina_claude_agent_sdk.settings import ClaudeAgentExtra, cli_of
from karenina_core.errors import KareninaError

if TYPE_CHECKING:
    from claude_agent_sdk import McpSdkServerConfig, Message

    from karenina_core.models.ports import ProgramSandbox

_PASSED: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SYSTEMROOT", "COMSPEC", "PATHEXT")
_PASSED_INSIDE: Final = ("LANG", "LC_ALL", "LC_CTYPE")
_PROMPT: Final = "system.md"
_PORT_INSIDE: Final = 8000
"""The port of the endpoint in a sandbox, which has a 127.0.0.1 of its own."""
_LONG: Final = str(24 * 3600 * 1000)
_FIXED: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_COMPACT": "1",
    "ENABLE_TOOL_SEARCH": "false",
    "API_TIMEOUT_MS": _LONG,
    "MCP_TOOL_TIMEOUT": _LONG,
    "MAX_MCP_OUTPUT_TOKENS": "1000000",
}
_EDITORS: Final = {"Write", "Edit"}
_SHELL: Final = "Bash"


class CLIError(Exception):
    """Raised if the CLI cannot be started or ends too early. The message contains the reason, if known.

    `lasting` is true if a retry would not help.
    """

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The server for the requests of one run of the CLI: its URL and, in a sandbox, its unix socket."""

    url: str
    socket: Path | None = None


@dataclass(frozen=True, slots=True)
class CLISettings:
    """The settings for one run of the CLI.

    `folder` is the working directory, by default an empty one. `tools` are the CLI's own tools that are allowed. `bare`
    omits the CLI's description of its environment. `server` offers the tools of the run, and `schema` is the JSON
    Schema of the answer. In a `sandbox`, the CLI works in `folder`.
    """

    model_name: str
    extra: ClaudeAgentExtra
    system: str
    thinking: str | None = None
    folder: Path | None = None
    tools: Sequence[str] = ()
    bare: bool = False
    server: McpSdkServerConfig | None = None
    schema: str | None = None
    sandbox: ProgramSandbox | None = None


@dataclass(frozen=True, slots=True)
class CLI:
    """A running CLI."""

    client: ClaudeSDKClient
    process: CLIProcess

    async def converse(self, wire: Sequence[WireMessage]) -> AsyncGenerator[Message, None]:
        """Send the conversation to the CLI, and yield the messages that follow its last one. Raises `CLIError` when the
        CLI ends, or if it cannot be reached.

        The CLI reads one message at a time, and does not answer the earlier ones.
        """
        try:
            received = self.client.receive_messages()
            for entry in wire[:-1]:
                asks = entry["role"] == "user"
                await self._tell({**_to_entry(entry), **({"shouldQuery": False} if asks else {})})
                if asks:
                    async for message in received:
                        if isinstance(message, ResultMessage):
                            break
            await self._tell(_to_entry(wire[-1]))
            async for message in received:
                yield message
        except (ClaudeSDKError, OSError) as error:
            raise CLIError(await _why(str(error), self.process)) from None
        raise CLIError(await _why("the process ended", self.process))

    async def _tell(self, entry: WireMessage) -> None:
        """Send one message to the CLI, and return when it has been written, not when it is answered."""

        async def one() -> AsyncIterator[dict[str, Any]]:
            yield entry

        await self.client.query(one())


@asynccontextmanager
async def start_cli(setting: CLISettings, endpoint: Endpoint) -> AsyncIterator[CLI]:
    """Start a CLI that sends its requests to `endpoint`, in a temporary home directory. At the end of the block, kill
    it and remove the directory. Raises `CLIError` if the CLI is not installed or does not start.
    """
    home = Path(tempfile.mkdtemp(prefix="karenina-"))  # not in a thread: a cancellation would leave the folder behind
    try:
        folder = setting.folder if setting.folder is not None else home / "empty"
        for path in (home / "config", home / "empty", home / "tmp"):
            path.mkdir()
        async with _prepare(setting, home, folder, endpoint) as (command, environment):
            process = CLIProcess(command, environment, folder, str(home))
            servers: Any = {SERVER: setting.server} if setting.server is not None else {}
            client = ClaudeSDKClient(ClaudeAgentOptions(mcp_servers=servers, verbatim_prompts=True), transport=process)
            try:
                try:
                    await client.connect()
                except OSError as error:
                    raise CLIError(f"the process could not be started: {error}", lasting=True) from None
                except Exception as error:  # the SDK raises `Exception` if the CLI does not answer
                    raise CLIError(await _why(f"the process did not start: {error}", process)) from None
                yield CLI(client, process)
            finally:
                await process.close()
                with suppress(ClaudeSDKError, OSError):
                    await client.disconnect()
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, home, ignore_errors=True))


@asynccontextmanager
async def _prepare(
    setting: CLISettings, home: Path, folder: Path, endpoint: Endpoint
) -> AsyncIterator[tuple[Sequence[str], Mapping[str, str]]]:
    """Yield the command that starts the CLI, and its environment. In a sandbox, it reaches nothing but the endpoint.
    Raises `CLIError` if the CLI is not installed, or if the sandbox cannot be used.
    """
    command = _command(setting, home)
    if setting.sandbox is None or endpoint.socket is None:
        places = {
            "HOME": str(home),
            "USERPROFILE": str(home),
            "TMPDIR": str(home / "tmp"),
            "CLAUDE_CODE_TMPDIR": str(home / "tmp"),
            "CLAUDE_CONFIG_DIR": str(home / "config"),
            "PWD": str(folder),
        }
        yield command, {**_passed(_PASSED), **_environment(setting, endpoint.url), **places}
        return
    prompt = home / _PROMPT
    prompt.chmod(0o644)  # for the user id of a sandbox; other users cannot enter the folder
    url = urlsplit(endpoint.url)._replace(netloc=f"127.0.0.1:{_PORT_INSIDE}").geturl()
    environment = {**_passed(_PASSED_INSIDE), **_environment(setting, url)}
    isolated = setting.sandbox.isolate(
        command, setting.folder, environment, readable=[prompt], servers={_PORT_INSIDE: endpoint.socket}
    )
    async with AsyncExitStack() as stack:
        try:
            prepared = await stack.enter_async_context(isolated)
        except KareninaError as error:
            raise CLIError(str(error), lasting=True) from error
        yield prepared


async def _why(error: str, process: CLIProcess) -> str:
    """Return the error message, followed by the CLI's error output, if there is any."""
    return "; error output: ".join(part for part in (error, await process.read_error_output()) if part)


def _to_entry(entry: WireMessage) -> WireMessage:
    """Return a message in the format that the CLI reads."""
    return {"type": entry["role"], "message": entry, "parent_tool_use_id": None, "session_id": ""}


def _command(setting: CLISettings, home: Path) -> list[str]:
    """Write the system prompt to a file in `home`, and return the command that starts the CLI. Raises `CLIError` if the
    CLI is not installed.
    """
    cli = cli_of(setting.extra)
    if cli is None:
        raise CLIError(
            "the CLI is not installed; install claude-agent-sdk from its wheel, or set extra.cli_path", lasting=True
        )
    prompt = home / _PROMPT
    prompt.write_text(setting.system, "utf-8")  # an argument would be limited in length, and visible to other users
    allowed = [rule for rule in (_rule(tool) for tool in setting.tools) if rule]
    if setting.server is not None:
        allowed.append(f"mcp__{SERVER}")
    command = [str(cli), "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"]
    command += ["--model", setting.model_name, "--system-prompt-file", str(prompt), "--tools", ",".join(setting.tools)]
    command += ["--permission-mode", "dontAsk", "--setting-sources=", "--strict-mcp-config"]
    if allowed:
        command += ["--allowedTools", ",".join(dict.fromkeys(allowed))]
    if setting.server is not None:
        config = {"mcpServers": {SERVER: {"type": "sdk", "name": SERVER}}}
        command += ["--mcp-config", json.dumps(config)]
    if setting.thinking is not None:
        command += ["--thinking", setting.thinking]
    if setting.schema is not None:
        command += ["--json-schema", setting.schema]
    return command


def _rule(tool: str) -> str | None:
    """Return the rule that permits a tool, because no user can be asked. Tools that only read need no rule."""
    if tool in _EDITORS:
        return "Edit(./**)"
    return tool if tool == _SHELL else None


def _passed(names: Sequence[str]) -> dict[str, str]:
    """Return variables of this process, those of them that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


def _environment(setting: CLISettings, url: str) -> dict[str, str]:
    """Return the CLI's environment variables, except those for folders: passed ones, fixed ones, `url` and a
    placeholder for the API key.
    """
    return {
        **_passed(setting.extra.pass_env),
        **_FIXED,
        **({"CLAUDE_CODE_SIMPLE": "1"} if setting.bare else {}),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "kept-out-of-here",
    }
