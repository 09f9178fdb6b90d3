"""With an address that is not a Ray cluster, a run ends within seconds with exit code 2 and names the address.

Nothing is asked of a model, nothing is left running, and a journal that was begun can be gone on with.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from subprocess import CompletedProcess

import preloaded
import pytest
from conftest import Environment
from servers import recording_server

from karenina_testing.server import refusing_url

Behaviour = Callable[[socket.socket], None]
ALLOWED = 60
"""Seconds for the whole command on a busy machine. Ray itself gives up after two minutes and more."""
QUESTION = {
    "question": "Which gene?",
    "answer": {"gene": {"description": "The gene it names", "ground_truth": "BCL2", "verify_with": "ExactMatch"}},
}


@contextmanager
def listen(behave: Behaviour) -> Iterator[str]:
    """Provide the address of a server that does this with each connection. Ray uses the address of the machine."""
    with socket.create_server(("0.0.0.0", 0), backlog=128) as door:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = door.accept()
                except OSError:
                    return
                kept.append(connection)
                threading.Thread(target=attempt, args=(connection,), daemon=True).start()

        def attempt(connection: socket.socket) -> None:
            try:
                behave(connection)
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"127.0.0.1:{door.getsockname()[1]}"
        finally:
            for connection in kept:
                connection.close()


def silent(connection: socket.socket) -> None:
    """Read, and never answer."""
    while connection.recv(65536):
        pass


def garbage(connection: socket.socket) -> None:
    """Send random bytes until the connection ends."""
    while True:
        connection.sendall(os.urandom(65536))
        time.sleep(0.01)


def another_protocol(connection: socket.socket) -> None:
    """Answer as a web server does."""
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def half_http2(connection: socket.socket) -> None:
    """Greet as a gRPC server does, with an empty SETTINGS frame, and answer no call."""
    connection.sendall(bytes(3) + b"\x04" + bytes(5))
    silent(connection)


Attacked = tuple[CompletedProcess[str], float, list[str]]


def run_against_address(site: Environment, address: str, *, script: bool = False) -> Attacked:
    """Run a benchmark with this address: what the command did, its seconds, and the requests that a model got."""
    file = site.write("genes.jsonl", json.dumps(QUESTION) + "\n")
    with recording_server(lambda _: "BCL2") as server:
        model = f"openai:m@{server.url}"
        preloaded.scripts()  # its start is no part of the command
        began = time.monotonic()
        chosen = ("--executor", "ray", "--set", f"ray_address={address}")
        done = site.karenina("run", file, "-a", model, "-j", model, *chosen, script=script)
        return done, time.monotonic() - began, server.seen


SERVERS: list[Behaviour] = [silent, garbage, another_protocol, half_http2]


@pytest.fixture(scope="module")
def attacked_at_once(tmp_path_factory: pytest.TempPathFactory) -> dict[Behaviour, tuple[str, Attacked]]:
    """Return the address of each server, and what a run with it did. Most of the time is spent waiting."""

    def attack(behave: Behaviour) -> tuple[str, Attacked]:
        with listen(behave) as address:
            return address, run_against_address(Environment(tmp_path_factory.mktemp("site")), address)

    with ThreadPoolExecutor(len(SERVERS)) as pool:
        return dict(zip(SERVERS, pool.map(attack, SERVERS), strict=True))


@pytest.mark.parametrize("behave", SERVERS)
def test_a_server_that_is_not_ray_ends_the_run_soon(
    attacked_at_once: dict[Behaviour, tuple[str, Attacked]], behave: Behaviour
) -> None:
    """Attack: accept connections at `ray_address`, and say nothing, random bytes, or another protocol."""
    address, (done, seconds, asked) = attacked_at_once[behave]

    assert done.returncode == 2, done.stderr
    assert f"cannot reach the Ray cluster {address} (ray_address): TimeoutError: no Ray cluster" in done.stderr
    assert "Traceback" not in done.stderr
    assert seconds < ALLOWED
    assert asked == []


def test_an_address_where_nothing_listens_is_refused_at_once(site: Environment) -> None:
    """Attack: name a port where nothing listens."""
    with refusing_url() as url:
        address = url.removeprefix("http://")
        done, seconds, asked = run_against_address(site, address, script=True)

    assert done.returncode == 2, done.stderr
    assert f"cannot reach the Ray cluster {address} (ray_address)" in done.stderr
    assert "refused" in done.stderr.lower() or "Connect call failed" in done.stderr
    assert "Traceback" not in done.stderr
    assert seconds < ALLOWED
    assert asked == []


def test_a_benchmark_does_not_choose_the_executor_or_its_address(site: Environment) -> None:
    """Attack: name the executor and an address in the benchmark's own configuration."""
    connected: list[socket.socket] = []
    with listen(connected.append) as address, recording_server(lambda _: "BCL2") as server:
        head = {"karenina": 1, "name": "Genes", "config": {"executor": "ray", "ray_address": address}}
        lines = [head, QUESTION]
        file = site.write("genes.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        model = f"openai:m@{server.url}"
        done = site.karenina("run", file, "-a", model, "-j", model)
        asked = server.seen

    assert done.returncode == 2, done.stderr
    assert "ray_address" in done.stderr
    assert "karenina trust" in done.stderr
    assert connected == []
    assert asked == []
