"""Install built wheels into a fresh environment and use them: `python scripts/try_wheels.py dist --demo`.

The wheels of other projects are downloaded first, from the index configured for pip. Then uv installs everything
without an index: what `pip install karenina` installs or, with `--all`, every wheel. All plugins must load. With
`--demo`, `karenina demo` is run, which needs its two models.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from release import ROOT, current_version


class Unusable(Exception):
    """Raised when wheels cannot be installed, or do not work after installation."""


class Environment:
    """A fresh virtual environment in a folder, and a working directory without any source code of this repository."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "environment", with_pip=True)
        self._scripts = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
        self.folder = folder / "work"
        self.folder.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KARENINA_"))}
        self._variables = {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def uv(self, command: str, *arguments: str | Path) -> None:
        """Run a command of `uv pip`, which compiles nothing and therefore takes a tenth of the time that pip takes.

        Raises `Unusable` if the command fails.
        """
        options = ["--python", str(self._scripts / "python")]
        done = subprocess.run(["uv", "pip", command, *options, *map(str, arguments)], env=self._variables, check=False)
        if done.returncode:
            raise Unusable(f"uv pip {command} exited with code {done.returncode}")

    def run(self, program: str, *arguments: str | Path, shown: bool = True) -> str:
        """Run a program in the environment. Its output is printed if `shown` is true, otherwise returned.

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
    ours = sorted(wheels.glob("karenina*.whl"))
    everything = folder / "wheels"
    wanted = [str(wheel) for wheel in ours] if every else [f"karenina=={current_version(ROOT)}"]
    options = ["--quiet", "--only-binary", ":all:", "--find-links", str(wheels), "--dest", str(everything)]
    environment.run("python", "-m", "pip", "download", *options, *wanted)
    foreign = [file.name for file in everything.glob("karenina*.whl") if file.name not in {one.name for one in ours}]
    if foreign:
        raise Unusable(f"{', '.join(foreign)} came from the index instead of {wheels}")
    for wheel in ours:
        (everything / wheel.name).write_bytes(wheel.read_bytes())
    environment.uv("install", "--quiet", "--no-index", "--find-links", everything, *wanted)
    environment.uv("check")
    plugins = json.loads(environment.run("karenina", "plugins", "--json", shown=False))["plugins"]
    broken = [one["name"] for one in plugins if one["state"] in ("failed", "conflict")]
    if broken or not any(one["state"] == "loaded" for one in plugins):
        raise Unusable(f"plugins cannot be loaded: {', '.join(broken) or 'all'}")
    if demo:
        environment.run("karenina", "demo")


def main() -> int:
    """Parse the arguments, install and use the wheels, and return the exit code."""
    parser = argparse.ArgumentParser(description="Install built wheels into a fresh environment and use them.")
    parser.add_argument("folder", type=Path, help="the folder with the wheels built by scripts/build_wheels.py")
    parser.add_argument("--demo", action="store_true", help="also run `karenina demo`")
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
