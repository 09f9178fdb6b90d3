"""Build every distribution as it is published, wheel and source: `python scripts/build_wheels.py dist`.

The folder must be absent or empty, so that what is uploaded from it is of one release. `twine check --strict` then
checks the metadata of each. The tools are those of `requirements-dev.txt`, and nothing is downloaded.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from release import ROOT, current_version, member_folders


def build(folder: Path, kinds: list[str]) -> list[Path]:
    """Build all distributions into `folder`; return their files. Raises `CalledProcessError` if a tool fails."""
    environment = {**os.environ, "KARENINA_RELEASE": "1"}
    for source in [ROOT, *member_folders(ROOT)]:
        options = ["--no-isolation", *(f"--{kind}" for kind in kinds), "--outdir", str(folder)]
        subprocess.run([sys.executable, "-m", "build", *options, str(source)], env=environment, check=True)
    files = sorted(folder.iterdir())
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)], check=True)
    return files


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description="Build every distribution of this repository as it is published.")
    parser.add_argument(
        "folder", type=Path, nargs="?", default=ROOT / "dist", help="an empty folder; dist if not given"
    )
    parser.add_argument("--wheels-only", action="store_true", help="build no source distributions")
    given = parser.parse_args()
    if given.folder.exists() and any(given.folder.iterdir()):
        parser.error(f"{given.folder} is not empty: move its files away, or name another folder")
    try:
        files = build(given.folder.absolute(), ["wheel"] if given.wheels_only else ["sdist", "wheel"])
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(map(str, error.cmd[:6]))} ... failed; its output is above", file=sys.stderr)
        return 1
    print(f"built {len(files)} files of version {current_version(ROOT)} in {given.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
