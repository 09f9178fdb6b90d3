"""Commands that print without end, or that leave processes behind, whatever the sandbox."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from processes import ends

from karenina_sandbox.providers.bwrap import SANDBOX as BWRAP
from karenina_sandbox.providers.none import SANDBOX as NONE
from karenina_sandbox.sandbox import CommandResult, Limits, Policy, SandboxProvider

WHY = BWRAP.unavailable()
PROVIDERS = [
    pytest.param(NONE, id="none"),
    pytest.param(BWRAP, id="bwrap", marks=pytest.mark.skipif(WHY is not None, reason=str(WHY))),
]
DAEMON = """import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('daemon', 'w').write(str(os.getpid()))
        {before}
        time.sleep(600)
    os._exit(0)
while not os.path.exists('daemon') or not open('daemon').read():
    time.sleep(0.01)
print('done')
"""


def run(provider: SandboxProvider, folder: Path, *command: str, limits: Limits) -> CommandResult:
    async def run_command() -> CommandResult:
        async with provider.open(folder, Policy(limits), in_place=True) as sandbox:
            return await sandbox.run(command)

    return asyncio.run(run_command())


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("stream", ["", ">&2"])
def test_endless_output_is_stopped_as_output(tmp_path: Path, provider: SandboxProvider, stream: str) -> None:
    result = run(provider, tmp_path, "sh", "-c", f"yes {stream}", limits=Limits(seconds=200, output=1000))

    assert (result.exit, result.stopped_by) == (None, "output")
    assert result.output + result.error_output == b"y\n" * 500
    assert result.seconds < 150


def test_a_daemon_ends_with_its_command(tmp_path: Path) -> None:
    script = DAEMON.format(before="pass")
    began = time.monotonic()
    result = run(NONE, tmp_path, "python", "-c", script, limits=Limits(seconds=200))

    assert (result.exit, result.output) == (0, b"done\n")
    assert time.monotonic() - began < 150
    if Path("/proc/self/environ").exists():
        assert ends(int((tmp_path / "daemon").read_text()))


def test_output_is_not_awaited_from_a_process_that_hides(tmp_path: Path) -> None:
    hidden = "os.execve('/bin/sleep', ['sleep', '200'], {})"
    began = time.monotonic()
    result = run(NONE, tmp_path, "python", "-c", DAEMON.format(before=hidden), limits=Limits(seconds=200))

    assert (result.exit, result.output) == (0, b"done\n")
    assert time.monotonic() - began < 150
