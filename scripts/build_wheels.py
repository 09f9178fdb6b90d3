"""Build every distribution for publication, both wheel and source: `python scripts/build_wheels.py dist`.

The folder must be missing or empty, so that everything uploaded from it belongs to one release. `twine check --strict`
then checks the metadata of each distribution. The tools are those in `requirements-dev.txt`, and nothing is downloaded.
All distributions are built in this process by their backend, Hatchling, because separate processes for each step take
twenty times as long.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import hatchling.build
from release import ROOT, current_version, member_folders


def build(folder: Path, *, sources: bool) -> list[Path]:
    """Build the wheels, and the source distributions if `sources` is true. Returns the files.

    Raises `CalledProcessError` if `twine check` rejects their metadata.
    """
    os.environ["KARENINA_RELEASE"] = "1"
    for source in [ROOT, *member_folders(ROOT)]:
        with chdir(source):
            if sources:
                hatchling.build.build_sdist(str(folder))
            hatchling.build.build_wheel(str(folder))
    files = sorted(folder.iterdir())
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)], check=True)
    return files


def main() -> int:
    """Parse the arguments, build the distributions, and return the exit code."""
    parser = argparse.ArgumentParser(description="Build every distribution of this repository as it is published.")
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "dist", help="an empty folder (default: dist)")
    parser.add_argument("--wheels-only", action="store_true", help="build no source distributions")
    given = parser.parse_args()
    if given.folder.exists() and any(given.folder.iterdir()):
        parser.error(f"{given.folder} is not empty; move its files, or choose another folder")
    given.folder.mkdir(parents=True, exist_ok=True)
    try:
        files = build(given.folder.absolute(), sources=not given.wheels_only)
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(map(str, error.cmd[:6]))} ... failed; its output is above", file=sys.stderr)
        return 1
    print(f"built {len(files)} files of version {current_version(ROOT)} in {given.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
