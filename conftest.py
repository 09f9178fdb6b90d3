"""Settings for the tests of all members: profiles for property tests, and a state folder in place of the user's."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import left_to_release
import pytest
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "karenina",
    settings.get_profile("ci"),  # the same examples each time, and without a clock
    max_examples=10,
    phases=set(Phase) - {Phase.explain},  # it traces each line, which takes minutes where a law runs commands
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("karenina"), max_examples=100)  # before a release
settings.register_profile("few", settings.get_profile("karenina"), max_examples=5)  # with another version of Python

if sys.platform != "win32":
    import fcntl

_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Set the state folder and one authority, also for started commands; look for no garbage during collection."""
    gc.disable()
    gc.set_threshold(20_000, 10, 10)  # and seldom later: a thirtieth of the time of these tests
    folder = config.stash[_FOLDER] = tempfile.TemporaryDirectory(prefix="karenina-tests-state-")
    os.environ["XDG_STATE_HOME"] = folder.name
    os.environ.pop("KARENINA_STATE_HOME", None)
    if _AUTHORITIES.is_file():  # each client reads all of them, and tests speak to no server that needs one
        first, end, _ = _AUTHORITIES.read_text("utf-8").partition("-----END CERTIFICATE-----")
        one = Path(folder.name, "authority.pem")
        one.write_text(f"{first}{end}\n", "utf-8")
        os.environ["SSL_CERT_FILE"] = str(one)
        os.environ.pop("SSL_CERT_DIR", None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect one process after another: in a new environment, the first compiles the modules."""
    if sys.platform == "win32":
        return (yield)
    environment = os.open(sys.prefix, os.O_RDONLY)
    try:
        fcntl.flock(environment, fcntl.LOCK_EX)
        return (yield)
    finally:
        os.close(environment)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that `left_to_release` lists as `release`."""
    left_to_release.leave_to_release(items)


def pytest_collection_finish() -> None:
    """Exclude the collected tests, which live until the end, from later garbage collections."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the state folder."""
    config.stash[_FOLDER].cleanup()


@pytest.fixture(autouse=True, scope="module")
def _own_state(pytestconfig: pytest.Config) -> None:
    """Give each module a state folder of its own, because each run reads the commands of all runs before it there."""
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(dir=pytestconfig.stash[_FOLDER].name)


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, without Karenina's variables of the user's environment."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("KARENINA_")]:
        monkeypatch.delenv(name)
    return tmp_path
