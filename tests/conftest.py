"""Shared fixtures of the tests of the whole project: loopback network only, and wheels built outside the repository."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from shutil import copytree
from typing import Any, Literal

import hatchling.build
import preloaded
import pytest
from build import ProjectBuilder
from pytest_socket import socket_allow_hosts

from karenina_testing.contracts import command

collect_ignore = ["third_party"]
"""Packages of others: their tests run where they are installed (`test_contract_kit`, `test_third_party_plugins`)."""

EXAMPLES = Path(__file__).parents[1] / "examples"
THIRD_PARTY = Path(__file__).parent / "third_party"
SCRIPTS = Path(sysconfig.get_path("scripts"))


@pytest.fixture(autouse=True)
def _loopback_only() -> None:
    socket_allow_hosts(["127.0.0.1", "::1"], allow_unix_socket=True)


@pytest.fixture(autouse=True)
def _default_logging() -> Iterator[None]:
    """Commands that run in the process of the tests set up logging; the next test begins without that."""
    _reset_logging()
    yield
    _reset_logging()


def _reset_logging() -> None:
    logger = logging.getLogger("karenina")
    logger.setLevel(logging.NOTSET)
    logger.propagate = True
    logger.handlers.clear()


class Wheels:
    """Builds wheels from source trees in a folder of its own, each once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._built: dict[str, Path] = {}

    def example(self, name: str) -> Path:
        """Return the wheel of a package of `examples/plugins` or of `third_party`."""
        if name not in self._built:
            (tree,) = (root / name for root in (EXAMPLES / "plugins", THIRD_PARTY) if (root / name).is_dir())
            self._built[name] = self._build(copytree(tree, self._folder / "sources" / name, dirs_exist_ok=True))
        return self._built[name]

    def package(
        self,
        name: str,
        version: str,
        entry_points: Iterable[tuple[str, str]],
        source: str,
        *,
        metadata: str = "",
        typed: bool = False,
    ) -> Path:
        """Return the wheel of a package with one module of this source; entry points are (group, name).

        `metadata` are further lines of its table `project`.
        """
        module = name.replace("-", "_")
        points = "\n".join(
            f'[project.entry-points."{group}"]\n"{point}" = "{module}:plugin"\n' for group, point in entry_points
        )
        tree = self._folder / "sources" / f"{name}-{version}"
        (tree / module).mkdir(parents=True)
        (tree / module / "__init__.py").write_text(source, "utf-8")
        (tree / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
            f'[project]\nname = "{name}"\nversion = "{version}"\n{metadata}\n{points}',
            "utf-8",
        )
        if typed:
            (tree / module / "py.typed").touch()
        return self._build(tree)

    def source(self, tree: Path) -> Path:
        """Return the wheel of a source tree."""
        return self._build(tree)

    def _build(self, tree: Path) -> Path:
        """Build in this process, which takes a tenth of the time of a new one."""
        with chdir(tree):
            return self._folder / "wheels" / hatchling.build.build_wheel(str(self._folder / "wheels"))


class Environment:
    """An environment: this one, and the wheels that were installed into a folder on top of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._packages = folder / "site"

    def install(self, *wheels: Path) -> None:
        """Install from the files alone."""
        options = ["-q", "--no-deps", "--no-index", "--python", sys.executable, "--target", self._packages]
        self._run([sys.executable, "-m", "uv", "pip", "install", *options, *wheels]).check_returncode()

    def karenina(self, *arguments: str | Path, script: bool = False) -> subprocess.CompletedProcess[str]:
        """Run the command; `script` starts a new interpreter for it."""
        return preloaded.run(arguments, folder=self.folder, environment=self._environment, timeout=120, script=script)

    def printed(self, *arguments: str | Path, code: int = 0) -> Any:
        """Return the JSON that the command prints; it has to end well, or with this exit code."""
        done = self.karenina(*arguments, "--json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def python(self, program: str, *, script: bool = False) -> Any:
        """Return the JSON that a program prints; `script` starts a new interpreter for it."""
        done = preloaded.run(
            [], folder=self.folder, environment=self._environment, timeout=120, program=program, script=script
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def pytest(self, *arguments: str | Path, script: bool = False) -> subprocess.CompletedProcess[str]:
        """Run pytest, without the configuration of this repository; `script` starts a new interpreter for it."""
        if script:
            options = ["-q", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin"]
            return self._run([sys.executable, "-m", "pytest", *options, *arguments])
        return preloaded.pytest(["-q", *arguments], folder=self.folder, environment=self._environment, timeout=250)

    def write(self, name: str, text: str) -> Path:
        """Return a file beside the environment."""
        file = self.folder / name
        file.write_text(text, "utf-8")
        return file

    @property
    def _environment(self) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KARENINA_")}
        return environment | {"PYTHONPATH": str(self._packages), "COLUMNS": "400", "NO_COLOR": "1"}

    def _run(self, command: list[Any]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=250
        )


@pytest.fixture
def forked_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let contracts that run the command run forks; `test_new_packages_installed` runs the installed one."""
    monkeypatch.setattr(command, "_find_command", lambda: str(preloaded.scripts() / "karenina"))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """Return the builder of wheels of third-party packages."""
    return Wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def site(tmp_path: Path) -> Environment:
    """Return an environment for the installation of third-party packages."""
    return Environment(tmp_path)


def build_distribution(kind: Literal["sdist", "wheel"], tree: Path, folder: Path, **environment: str) -> Path:
    """Build a source tree with the backend that it names, as pip would, with the tools of this environment."""

    def quietly(cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None) -> None:
        usual = {name: value for name, value in os.environ.items() if not name.startswith("KARENINA_")}
        subprocess.run(
            cmd, cwd=cwd, env={**usual, **environment, **(extra_environ or {})}, capture_output=True, check=True
        )

    return Path(ProjectBuilder(tree, runner=quietly).build(kind, folder))
