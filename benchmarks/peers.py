"""Other frameworks beside ours: which there are here, the server that all of them ask, and what they say of themselves.

The peers are the scripts `bench_NAME.py` of a folder (`--peers`), each run by the interpreter that `--peer-python
NAME=PATH` or the variable `PEER_NAME` gives; those without one are named and left out. Each prints a line
`RESULT {...}`: CPU milliseconds a question (`cpu_ms_per_q`), ideal time to wall time (`eff`), and the memory before and
after (`rss0_mb`, `rss1_mb`).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fake_server

FLOOR = "bare aiohttp loop"
PYDANTIC_EVALS = "pydantic-evals"


@dataclass(frozen=True, slots=True)
class Peer:
    """A framework, or the bare loop: its label, the arguments of its script, and the modules that its users import."""

    label: str
    options: tuple[str, ...] = ()
    module: str = ""


PEERS = {
    "floor": Peer(FLOOR, module="aiohttp"),
    "pyeval": Peer(PYDANTIC_EVALS, ("--judge", "structured"), "pydantic_evals"),
    "inspect": Peer("Inspect AI", ("--scorer", "structured"), "inspect_ai"),
    "deepeval": Peer("DeepEval", module="deepeval"),
}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of what is measured: Python writes its compiled files, as it does for users."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to have the questions answered and judged: a command that prints its figures."""

    name: str
    command: tuple[str, ...]
    count: int

    def figures(self, url: str) -> dict[str, Any]:
        """Return the output of the command against the server at `url` (without `/v1`). Raises `SystemExit`."""
        environment = {**ENVIRONMENT, "FAKE_BASE": url}
        done = subprocess.run(self.command, capture_output=True, text=True, env=environment, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if done.returncode or not lines:
            raise SystemExit(f"{self.name} failed:\n{done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
        if found["ok"] != self.count:
            raise SystemExit(f"{self.name}: {found['ok']} of {self.count} questions are correct")
        return found

    def asking(self, count: int) -> Way:
        """Return the same way with another number of questions, which its command has after `-n`."""
        at = self.command.index("-n") + 1
        return Way(self.name, (*self.command[:at], str(count), *self.command[at + 1 :]), count)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the places of the peers."""
    parser.add_argument("--peers", type=Path, default=Path(__file__).parents[2] / "shared" / "peers")
    parser.add_argument("--peer-python", action="append", default=[], metavar="NAME=PATH")


def interpreters(given: argparse.Namespace) -> dict[str, str]:
    """Return the interpreters of the peers that are here, by name; the others are named. Raises `SystemExit`."""
    found = {name: os.environ.get(f"PEER_{name.upper()}", "") for name in PEERS}
    for text in given.peer_python:
        name, _, path = text.partition("=")
        if name not in PEERS:
            raise SystemExit(f"--peer-python {text}: no such peer; there are {', '.join(PEERS)}")
        found[name] = path
    here: dict[str, str] = {}
    for name, python in found.items():
        script = given.peers / f"bench_{name}.py"
        if script.is_file() and python and Path(python).exists():
            here[name] = python
        else:
            why = f"there is no {script}" if not script.is_file() else f"give --peer-python {name}=PATH"
            print(f"  {PEERS[name].label}: left out, {why}")
    return here


def ways(given: argparse.Namespace, counts: Mapping[str, int], at_once: int, latency: float) -> list[Way]:
    """Return the ways of the peers that are here: each answers and judges so many questions, by its name in `counts`.

    `latency` is that of the server, in seconds.
    """
    sizes = ("-c", str(at_once), "-l", f"{latency * 1000:g}")
    return [
        Way(
            PEERS[name].label,
            (python, str(given.peers / f"bench_{name}.py"), "-n", str(counts[name]), *sizes, *PEERS[name].options),
            counts[name],
        )
        for name, python in interpreters(given).items()
        if name in counts
    ]


@contextmanager
def serving(given: argparse.Namespace, latency: float) -> Iterator[tuple[str, Callable[[int], str]]]:
    """Provide the URL of a server, without `/v1`, and the function of an item's code word; the peers' if present.

    Their scripts know the words of that server alone. Each reply comes `latency` seconds after its request.
    """
    script = given.peers.parent / "servers" / "fake_openai.py"
    if not script.is_file():
        with fake_server.running(latency) as server:
            yield server.url.removesuffix("/v1"), fake_server.code
        return
    spec = importlib.util.spec_from_file_location("peers_server", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    options = ["--port", "0", "--latency-ms", f"{latency * 1000:g}"]
    process = subprocess.Popen([sys.executable, script, *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1].removesuffix("/v1"), module.code
    finally:
        process.terminate()
        process.wait()
