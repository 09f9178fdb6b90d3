"""Write the version of a release into every file that contains it: `python scripts/release.py 0.2.0`.

The version in the repository's `pyproject.toml` is authoritative. This script copies it, and the bounds that follow
from it, to every member. It also dates the "Unreleased" section of CHANGELOG.md and opens a new one. Nothing is
committed or published: CONTRIBUTING.md describes the next steps. With `--check`, nothing is written, and the files in
which a version or bound is out of date are listed.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "## Unreleased"
VERSION_FILE = "karenina_core/src/karenina_core/catalog.py"
CITATION = "CITATION.cff"
NAMING = ("README.md", "docs/**/*.md", "examples/plugins/*/pyproject.toml", "tests/third_party/*/pyproject.toml")
"""Files that say which versions of a third-party package are required."""


class ReleaseError(Exception):
    """Raised when a release cannot be written. The message says how to fix it."""


def member_folders(root: Path) -> list[Path]:
    """Return the folders of all members, starting with the core's."""
    patterns = ("karenina_core", "karenina", "plugins/*", "adapters/*")
    return [file.parent for pattern in patterns for file in sorted(root.glob(f"{pattern}/pyproject.toml"))]


def bounds(version: Version) -> str:
    """Return the bounds on the version of other members, up to the next breaking release."""
    return f">={version},<{_next_break(version)}"


def _next_break(version: Version) -> str:
    """Return the next version that may break: a minor version before 1.0, otherwise a major one."""
    return str(version.major + 1) if version.major else f"0.{version.minor + 1}"


def current_version(root: Path) -> Version:
    """Return the current version of the repository."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return Version(project["version"])


def with_version(root: Path, version: Version, day: date | None = None) -> Iterator[tuple[Path, str]]:
    """Yield the files that contain a version, each with its text for release `version`.

    With `day`, the date of the citation and the heading of the changelog are updated too.
    """
    names = [
        tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["name"]
        for folder in member_folders(root)
    ]
    member = "|".join(sorted(names))
    between = re.compile(rf'"({member})(\[[\w,-]+\])?[=<>][^";]*')
    thirds = re.compile(rf"\b((?:{member})(?:\[[\w,-]+\])?)>=\d+(?:\.\d+)*,<\d+(?:\.\d+)*")
    for folder in [root, *member_folders(root)]:
        text = _read(folder / "pyproject.toml")
        text = between.sub(rf'"\g<1>\g<2>{bounds(version)}', text)
        yield (
            folder / "pyproject.toml",
            re.sub(r'^version = ".*"$', f'version = "{version}"', text, count=1, flags=re.M),
        )
    file = root / VERSION_FILE
    yield file, re.sub(r'^__version__ = ".*"$', f'__version__ = "{version}"', _read(file), flags=re.M)
    minor = f"{version.major}.{version.minor}" if version.major == 0 else str(version.major)
    for file in [file for pattern in NAMING for file in sorted(root.glob(pattern))]:
        yield file, thirds.sub(rf"\g<1>>={minor},<{_next_break(version)}", _read(file))
    file = root / CITATION
    text = re.sub(r"^version: .*$", f"version: {version}", _read(file), flags=re.M)
    yield (
        file,
        text if day is None else re.sub(r"^date-released: .*\n", "", text, flags=re.M) + f"date-released: {day}\n",
    )
    if day is not None:
        yield root / CHANGELOG, _dated(_read(root / CHANGELOG), version, day)


def _dated(text: str, version: Version, day: date) -> str:
    """Rename the "Unreleased" section of the changelog to `version`, and add an empty one above it.

    Raises `ReleaseError` if the section is empty.
    """
    before, heading, rest = text.partition(f"{UNRELEASED}\n")
    section = re.split(r"^## ", rest, maxsplit=1, flags=re.M)[0]
    if not heading or not section.strip():
        raise ReleaseError(
            f'{CHANGELOG} has nothing under "{UNRELEASED}"; add a description of the user-visible changes there'
        )
    return f"{before}{UNRELEASED}\n\n## {version} ({day})\n{rest}"


def release(root: Path, version: Version, day: date) -> list[Path]:
    """Write release `version`. Returns the files that changed.

    Raises `ReleaseError` if the version is not later than the current one, or if the changelog has no unreleased
    changes.
    """
    now = current_version(root)
    first = f"\n## {now} (" not in _read(root / CHANGELOG)
    if version < now or (version == now and not first):
        raise ReleaseError(f"{version} is not later than {now}, the current version of the repository")
    files = [(file, text) for file, text in with_version(root, version, day) if text != _read(file)]
    for file, text in files:
        file.write_text(text, "utf-8")
    return [file for file, _ in files]


def outdated(root: Path) -> list[Path]:
    """Return the files with versions or bounds that do not match the repository's version."""
    return [file for file, text in with_version(root, current_version(root)) if text != _read(file)]


def _read(file: Path) -> str:
    return file.read_text("utf-8")


def main() -> int:
    """Parse the arguments, write the release or check the files, and return the exit code."""
    parser = argparse.ArgumentParser(description="Write the version of a release into every file that contains it.")
    parser.add_argument("version", nargs="?", help="the version of the release, such as 0.2.0")
    parser.add_argument(
        "--date", type=date.fromisoformat, default=datetime.now(UTC).date(), help="YYYY-MM-DD; today if not given"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; list the files that are out of date")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.check is (given.version is not None):
        parser.error("specify either a version or --check")
    if given.check:
        wrong = outdated(given.root)
        for file in wrong:
            print(f"{file.relative_to(given.root)}: does not match version {current_version(given.root)}")
        return 1 if wrong else 0
    try:
        written = release(given.root, Version(given.version), given.date)
    except InvalidVersion:
        parser.error(f"{given.version!r} is not a version; write one such as 0.2.0 or 0.2.0rc1")
    except ReleaseError as error:
        parser.error(str(error))
    for file in written:
        print(f"wrote {file.relative_to(given.root)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
