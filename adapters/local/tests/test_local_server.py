from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from karenina_core.models.ports import PortError
from karenina_local.server import Address, LlamaServer, ServerPool, ServerSettings

PARENT = """
import os, signal, sys
from pathlib import Path
from karenina_local.server import LlamaServer, ServerSettings
print(LlamaServer(ServerSettings(Path(sys.argv[1]), context=512)).address().url, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def listens(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as connection:
        connection.settimeout(5)
        return connection.connect_ex((parts.hostname or "", parts.port or 0)) == 0


def ends(url: str, within: float = 120.0) -> bool:
    """Return whether no server listens there after a short wait."""
    until = time.monotonic() + within
    while listens(url):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def kill(server: LlamaServer) -> None:
    """Kill the server's process, and wait until it has ended: it closes its port a little before."""
    pid, until = server.pid, time.monotonic() + 120
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while server.pid is not None:
        assert time.monotonic() < until
        time.sleep(0.01)


def status(url: str, key: str | None = None) -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def small(model: Path) -> ServerSettings:
    return ServerSettings(model, slots=2, context=512)


def test_it_serves_requests_with_the_key_until_closed(smollm2: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server = LlamaServer(small(smollm2))
    address = server.address()
    try:
        assert urlsplit(address.url).hostname == "127.0.0.1"
        assert status(f"{address.url}/health") == 200
        assert status(f"{address.url}/v1/models", address.key) == 200
        assert status(f"{address.url}/v1/models/x/y") in (401, 404)
        assert status(f"{address.url}/props") == 401
    finally:
        server.close()
    assert not listens(address.url)
    assert server.pid is None
    assert capfd.readouterr() == ("", "")


def test_callers_that_come_at_once_wait_for_one_start(two_layers: Path) -> None:
    server = LlamaServer(small(two_layers))
    try:
        with ThreadPoolExecutor(4) as callers:
            addresses = set(callers.map(lambda _: server.address(), range(4)))
        assert addresses == {server.address_if_running()}
    finally:
        server.close()


def test_one_that_died_is_started_again_at_the_next_call(two_layers: Path) -> None:
    server = LlamaServer(small(two_layers))
    try:
        first = server.address()
        kill(server)
        assert ends(first.url)
        second = server.address()
        assert second.key != first.key
        assert status(f"{second.url}/health") == 200
    finally:
        server.close()


def test_one_that_always_dies_is_given_up(two_layers: Path) -> None:
    server = LlamaServer(small(two_layers))
    try:
        for _ in range(4):
            server.address()
            kill(server)
        with pytest.raises(PortError, match="ended 4 times") as caught:
            server.address()
        assert not caught.value.retriable
    finally:
        server.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_it_ends_with_a_parent_that_is_killed(two_layers: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PARENT, str(two_layers)], capture_output=True, text=True, timeout=200)
    assert done.returncode == -signal.SIGKILL
    assert ends(done.stdout.strip())


def test_closing_while_it_loads_leaves_no_process(smollm2: Path) -> None:
    server = LlamaServer(small(smollm2))

    def call() -> Address | PortError:
        try:
            return server.address()
        except PortError as error:
            return error

    with ThreadPoolExecutor(1) as caller:
        called = caller.submit(call)
        while server.pid is None:
            time.sleep(0.001)
        server.close()
        assert "closed while it was loading" in str(called.result())
    assert server.pid is None


def test_a_file_that_cannot_be_loaded_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\xff" * 500)
    server = LlamaServer(ServerSettings(broken))
    with pytest.raises(PortError, match=r"could not load .*broken\.gguf") as caught:
        server.address()
    assert "failed to load model" in str(caught.value)
    assert not caught.value.retriable
    server.close()


def test_loading_that_takes_too_long_is_given_up(smollm2: Path) -> None:
    server = LlamaServer(ServerSettings(smollm2, start_timeout=0.01))
    with pytest.raises(PortError, match=r"did not load .* within 0\.01 s; raise `start_timeout`"):
        server.address()
    assert server.pid is None
    server.close()


def test_users_of_one_model_share_its_server(two_layers: Path) -> None:
    pool = ServerPool()
    answering, judging = pool.acquire(small(two_layers)), pool.acquire(small(two_layers))
    assert answering is judging
    other = pool.acquire(ServerSettings(two_layers, slots=1, context=512))
    assert other is not judging
    address = answering.address()
    pool.release(answering)
    assert status(f"{address.url}/health") == 200
    pool.release(judging)
    assert not listens(address.url)
    assert pool.acquire(small(two_layers)) is not answering
