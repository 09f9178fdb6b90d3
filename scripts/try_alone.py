"""Test each built wheel without the others: `python scripts/try_alone.py dist`.

The wheels of this repository are installed one after another, each with its requirements and nothing else in the
environment. All modules of a wheel must be importable, except those that need one of its extras, and its plugins must
load. Then the test tools and its extra `tests` are installed, and its tests marked `alone` are run; they show how it
behaves without the other members. A release tests all members like this, CI those that something may be missing from:
the members with extras, and those whose tests say what is missing (`--quick`). Packages are installed with uv, because
it takes one second where pip takes twenty.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from release import ROOT, current_version, member_folders

TOOLS = ("hypothesis", "pytest", "pytest-socket", "pytest-timeout")
OWN = {"karenina-embedding", "karenina-local", "karenina-ray"}
"""Members with many requirements, which CI already tests alone."""
QUICK = {"karenina-api", "karenina-cli", "karenina-core", "karenina-engine"}
"""Members whose tests are run with `--quick`: they say what is missing. That members without extras declare what they
import is shown by `tests/test_packaging_imports.py`, and that their plugins load by their contracts."""
GROUPS = ("karenina.plugins", "karenina.stages", "karenina.adapters")
"""The entry-point groups of plugins."""
LIBRARIES = {"yaml": "pyyaml", "opentelemetry": "opentelemetry_exporter_otlp_proto_http"}
"""Modules whose names differ from those of their distributions."""
PROGRAM = """
import importlib, json, pkgutil, sys
from karenina_core.plugins import active_plugins

missing = {}
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(getattr(package, "__path__", []), f"{package.__name__}."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            missing[module.name] = error.name.partition(".")[0]
plugins = [[one.name, one.distribution, one.state, one.failure] for one in active_plugins().describe()]
print(json.dumps([missing, plugins]))
"""
"""A program that prints the plugins, and the modules of a package that lack a package to import."""


class Failed(Exception):
    """Raised when a wheel does not work without the others."""


class Environment:
    """A virtual environment with only the latest installation, and a working folder without source code."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        place = folder / "environment"
        self._python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
        self._wheels = wheels
        self._folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KARENINA_"))}
        # Compiled modules outlast their packages, which come and go: they are compiled once.
        self._variables = {**kept, "VIRTUAL_ENV": str(place), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        self._run(["uv", "venv", "--quiet", "--python", sys.executable, str(place)])

    def install(self, *wanted: str) -> None:
        """Install these requirements, and remove everything else. Raises `Failed` if this fails."""
        self._run(["uv", "pip", "install", "--quiet", "--exact", "--find-links", str(self._wheels), *wanted])

    def python(self, *arguments: str, folder: Path | None = None) -> str:
        """Run Python in `folder`, by default a working folder. Returns its output, or raises `Failed`."""
        return self._run([str(self._python), *arguments], folder)

    def _run(self, command: list[str], folder: Path | None = None) -> str:
        """Run a command. Returns its output, or raises `Failed` with it if there is an error."""
        done = subprocess.run(
            command, cwd=folder or self._folder, env=self._variables, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Failed(f"{' '.join(command)[:200]} exited with code {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout


def try_alone(environment: Environment, folder: Path, wheel: Path, *, tests: bool) -> None:
    """Install the wheel of a member and test it, and run its tests if `tests`. Raises `Failed` if it does not work."""
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    (package,) = (path.name for path in (folder / "src").iterdir() if (path / "__init__.py").is_file())
    environment.install(str(wheel))
    missing, plugins = json.loads(environment.python("-c", PROGRAM, package))
    needed = {LIBRARIES.get(name, name) for name in missing.values()}
    optional = {re.split(r"[^\w.-]", line)[0].lower().replace("-", "_") for lines in extras.values() for line in lines}
    if not needed <= optional:
        raise Failed(f"{package} imports packages that it does not require: {missing}")
    states = {name: state for name, distribution, state, _ in plugins if distribution == project["name"]}
    points = project.get("entry-points", {})
    if set(states) != {name for group in GROUPS for name in points.get(group, {})}:
        raise Failed(f"the loaded plugins of {package} differ from the plugins that the package declares: {states}")
    if broken := [one for one in plugins if one[2] in ("failed", "conflict")]:
        raise Failed(f"plugins cannot be loaded together with {package}: {broken}")
    files = [file for file in sorted(folder.glob("tests/test_*.py")) if "mark.alone" in file.read_text("utf-8")]
    if not files:
        raise Failed(f"no test of {project['name']} is marked `alone`")
    if not tests:
        return
    wanted = f"{project['name']}[tests] @ {wheel.as_uri()}" if "tests" in extras else str(wheel)
    environment.install(wanted, *TOOLS)
    chosen = ["-q", "-m", "alone", "-p", "no:cacheprovider", *(file.relative_to(ROOT).as_posix() for file in files)]
    environment.python("-m", "pytest", *chosen, folder=ROOT)


def main() -> int:
    """Test the given wheels one by one, and print the failures. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Test each built wheel without the others.")
    parser.add_argument("folder", type=Path, help="the folder with the wheels built by scripts/build_wheels.py")
    parser.add_argument(
        "names", nargs="*", help="distributions to test; by default, all that CI does not already test alone"
    )
    parser.add_argument("--quick", action="store_true", help="test only the members with extras and a few others")
    given = parser.parse_args()
    wheels = given.folder.absolute()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="karenina-alone-") as place:
        environment = Environment(Path(place), wheels)
        for folder in member_folders(ROOT):
            project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
            name, extras = project["name"], project.get("optional-dependencies", {}).keys() - {"tests"}
            if name not in (given.names or {name} - OWN) or (given.quick and not extras and name not in QUICK):
                continue
            wheel = wheels / f"{name.replace('-', '_')}-{current_version(ROOT)}-py3-none-any.whl"
            try:
                try_alone(environment, folder, wheel, tests=not given.quick or name in QUICK)
            except Failed as error:
                print(f"{name}: {error}", file=sys.stderr)
                failures += 1
            else:
                print(f"{name} works alone", flush=True)
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
