"""The client scenarios of `@modelcontextprotocol/conformance`, run against the sessions of agents.

The package comes from npm. Scenarios under `auth/` are about OAuth, which is not supported: it needs a person at a
browser, or a client registered with the server, and runs are unattended. A server that wants a token gets it in a
header (`mcp_server_options`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = "@modelcontextprotocol/conformance@0.1.13"
CLIENT = Path(__file__).with_name("mcp_client.py")
OFFERED = ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry")
NOT_OFFERED = ("auth/",)


@pytest.fixture(scope="session")
def conformance(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of the package, in a folder of its own."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("npm is not on this machine, and the scenarios come from it")
    folder = tmp_path_factory.mktemp("conformance")
    install = [npm, "install", "--no-audit", "--no-fund", "--prefix", folder, PACKAGE]
    try:
        done = subprocess.run(install, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{PACKAGE} could not be had from npm within two minutes")
    if done.returncode:
        pytest.skip(f"{PACKAGE} could not be had from npm: {done.stderr.strip()[-300:]}")
    return [node, str(folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js")]


def test_every_client_scenario_passes_or_has_a_stated_reason(conformance: list[str]) -> None:
    listed = subprocess.run([*conformance, "list", "--client"], capture_output=True, text=True, timeout=60).stdout
    scenarios = re.findall(r"^ *- (\S+)", listed.partition("Client scenarios")[2], re.MULTILINE)
    assert [one for one in scenarios if not one.startswith(NOT_OFFERED)] == list(OFFERED)
    assert any(one.startswith(NOT_OFFERED) for one in scenarios)


@pytest.mark.parametrize("scenario", OFFERED)
def test_a_client_scenario_passes(conformance: list[str], scenario: str, tmp_path: Path) -> None:
    command = [*conformance, "client", "--command", f"{sys.executable} {CLIENT}", "--scenario", scenario]
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=90)
    told = done.stdout + done.stderr
    passed = re.search(r"Passed: (\d+)/(\d+), 0 failed, 0 warnings", told)
    assert done.returncode == 0, told
    assert passed is not None, told
    assert passed[1] == passed[2] != "0"
