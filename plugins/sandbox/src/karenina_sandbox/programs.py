"""The sandbox of programs that agents start and that stay open: MCP servers, and agents with their own command line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karenina_sandbox.sandbox import Policy, ProgramProvider, SandboxError
from karenina_sandbox.settings import SandboxSettings, find_provider, make_policy, sandbox_problem

if TYPE_CHECKING:
    from karenina_core import VerificationConfig
    from karenina_core.models.ports import ProgramSandbox
    from karenina_core.plugins import Plugins

_FORWARDER: Final = """
import asyncio, os, socket, sys

end = sys.argv.index("--")
ports = [word.split("=", 1) for word in sys.argv[1:end]]
listening = [(socket.create_server(("127.0.0.1", int(port))), place) for port, place in ports]
if os.fork():
    os.execv(sys.argv[end + 1], sys.argv[end + 1:])
for descriptor in range(3):
    os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)

async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()

async def serve(server, place):
    async def connect(reader, writer):
        other_reader, other_writer = await asyncio.open_unix_connection(place)
        await asyncio.gather(copy(reader, other_writer), copy(other_reader, writer))
    async with await asyncio.start_server(connect, sock=server) as running:
        await running.serve_forever()

async def main():
    await asyncio.gather(*(serve(server, place) for server, place in listening))

asyncio.run(main())
"""
"""The program that passes connections to ports of 127.0.0.1 on to unix sockets. It becomes the command after `--`.

It runs in the sandbox, which has no network but its own 127.0.0.1, and no files of this distribution.
"""


def program_sandbox(config: VerificationConfig, plugins: Plugins) -> ProgramSandbox | None:
    """Return the sandbox that the configuration chooses for programs of agents. It is None if none isolates them."""
    chosen = config.section(SandboxSettings).sandbox
    return None if chosen is None or chosen == "none" else _Programs(config, plugins)


@dataclass(frozen=True, slots=True)
class _Programs:
    """Runs programs in the configured sandbox. See `ProgramSandbox`."""

    config: VerificationConfig
    plugins: Plugins

    def problem_of(self, command: Sequence[str]) -> str | None:
        """Return why a command cannot run in the sandbox, with a cure, or None. Raises `ConfigError` as
        `sandbox_problem` does.
        """
        problem = sandbox_problem(self.config, self.plugins)
        if problem is not None:
            return problem
        provider = self._provider()
        if provider is None:
            return (
                f"the sandbox {self._settings().sandbox!r} cannot confine programs that stay open, such as "
                f"{command[0]}; choose bwrap, or a model without such programs"
            )
        return provider.problem_of(command, make_policy(self._settings()))

    @asynccontextmanager
    async def isolate(
        self,
        command: Sequence[str],
        folder: Path | None,
        environment: Mapping[str, str],
        *,
        readable: Sequence[Path] = (),
        servers: Mapping[int, Path] | None = None,
        network: bool = False,
    ) -> AsyncIterator[tuple[Sequence[str], Mapping[str, str]]]:
        """Yield the command that runs `command` isolated in `folder`, and its whole environment. It can also read
        `readable`, reach each of the `servers` at a local port, and with `network` the network. Raises `SandboxError`
        if the sandbox cannot confine programs that stay open.
        """
        provider = self._provider()
        if provider is None:
            raise SandboxError(f"the sandbox {self._settings().sandbox!r} cannot confine programs that stay open")
        policy: Policy = make_policy(self._settings())
        inside = {port: f"/run/karenina/{port}" for port in servers or {}}
        policy = replace(
            policy,
            mounts=(*policy.mounts, *readable),
            environment={**policy.environment, **environment},
            sockets={inside[port]: place for port, place in (servers or {}).items()},
        )
        if inside:
            ports = [f"{port}={place}" for port, place in inside.items()]
            command = ["python", "-I", "-c", _FORWARDER, *ports, "--", *command]
        async with provider.wrap(command, folder, policy, network=network) as wrapped:
            yield wrapped

    def _settings(self) -> SandboxSettings:
        return self.config.section(SandboxSettings)

    def _provider(self) -> ProgramProvider | None:
        provider = find_provider(self.plugins, self._settings().sandbox or "none")
        return provider if isinstance(provider, ProgramProvider) else None
