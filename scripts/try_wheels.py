"""Install built wheels into a fresh environment and use them: `python scripts/try_wheels.py dist --demo`.

uv installs what `pip install karenina` installs or, with `--all`, every wheel. The wheels of other projects come from
its index, those of this repository only from the folder. All plugins must load, and `karenina demo --recorded` must
work. With `--demo`, the demo is also run with its two models.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PLACES = """
import importlib.metadata, json

found = [one for one in importlib.metadata.distributions() if one.name.startswith("karenina")]
print(json.dumps({one.name: json.loads(one.read_text("direct_url.json") or "{}").get("url") for one in found}))
"""
"""A program that prints where the distributions of this repository were installed from."""


class Unusable(Exception):
    """Raised when wheels cannot be installed, or do not work."""


class Environment:
    """A fresh virtual environment, and a working directory without source code of this repository."""

    def __init__(self, folder: Path) -> None:
        self._place = folder / "environment"
        self._scripts = self._place / ("Scripts" if os.name == "nt" else "bin")
        self.folder = folder / "work"
        self.folder.mkdir()
        self._variables = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KARENINA_"))
        }
        self._uv("venv", "--quiet", "--python", sys.executable, self._place)

    def pip(self, command: str, *arguments: str | Path) -> None:
        """Run `uv pip`, which is ten times as fast as pip. Raises `Unusable` if it fails."""
        self._uv("pip", command, "--python", self._scripts / "python", *arguments)

    def _uv(self, *arguments: str | Path) -> None:
        done = subprocess.run(["uv", *map(str, arguments)], env=self._variables, check=False)
        if done.returncode:
            raise Unusable(f"uv {' '.join(map(str, arguments[:2]))} exited with code {done.returncode}")

    def run(self, program: str, *arguments: str | Path, shown: bool = True) -> str:
        """Run a program in the environment. The output is printed if `shown` is true, otherwise returned.

        Raises `Unusable` if the program fails.
        """
        command = [str(self._scripts / program), *map(str, arguments)]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self._variables,
            stdout=None if shown else subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Unusable(f"{program} {' '.join(map(str, arguments[:4]))} exited with code {done.returncode}")
        return done.stdout or ""


def try_wheels(wheels: Path, folder: Path, *, every: bool, demo: bool) -> None:
    """Install the wheels below `folder` and use them. Raises `Unusable` if this fails."""
    environment = Environment(folder)
    ours = {wheel.name.partition("-")[0].replace("_", "-"): wheel for wheel in sorted(wheels.glob("karenina*.whl"))}
    constraints = folder / "ours.txt"
    constraints.write_text("".join(f"{name} @ {wheel.as_uri()}\n" for name, wheel in ours.items()), "utf-8")
    environment.pip("install", "--quiet", "--constraint", constraints, *(ours if every else ["karenina"]))
    environment.pip("check", "--quiet")
    places = json.loads(environment.run("python", "-c", PLACES, shown=False))
    if foreign := [name for name, place in places.items() if place != ours[name].as_uri()]:
        raise Unusable(f"{', '.join(foreign)} came from an index instead of {wheels}")
    plugins = json.loads(environment.run("karenina", "plugins", "--json", shown=False))["plugins"]
    broken = [one["name"] for one in plugins if one["state"] in ("failed", "conflict")]
    if broken or not any(one["state"] == "loaded" for one in plugins):
        raise Unusable(f"plugins cannot be loaded: {', '.join(broken) or 'all'}")
    environment.run("karenina", "demo", "--recorded")
    if demo:
        environment.run("karenina", "demo")


def main() -> int:
    """Parse the arguments, install and use the wheels, and return the exit code."""
    parser = argparse.ArgumentParser(description="Install built wheels into a fresh environment and use them.")
    parser.add_argument("folder", type=Path, help="the folder with the wheels built by scripts/build_wheels.py")
    parser.add_argument("--demo", action="store_true", help="also run `karenina demo` with its models")
    parser.add_argument("--all", action="store_true", help="install every wheel, which downloads about 600 MB")
    given = parser.parse_args()
    if not list(given.folder.glob("karenina-*.whl")):
        parser.error(f"{given.folder} does not contain a wheel of karenina; run scripts/build_wheels.py first")
    try:
        with tempfile.TemporaryDirectory(prefix="karenina-wheels-") as folder:
            try_wheels(given.folder.absolute(), Path(folder), every=given.all, demo=given.demo)
    except Unusable as error:
        print(error, file=sys.stderr)
        return 1
    print(f"the wheels in {given.folder} install together and work")
    return 0


if __name__ == "__main__":
    sys.exit(main())
