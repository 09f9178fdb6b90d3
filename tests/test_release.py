"""Releases: one version in every file that names it, and bounds between members that follow from it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from shutil import copy

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
NAMING = (
    "pyproject.toml",
    "README.md",
    "docs/**/*.md",
    "CITATION.cff",
    "karenina_core/src/karenina_core/catalog.py",
    "karenina*/pyproject.toml",
    "plugins/*/pyproject.toml",
    "adapters/*/pyproject.toml",
    "examples/plugins/*/pyproject.toml",
    "tests/third_party/*/pyproject.toml",
)
UNRELEASED = "# Changelog\n\n## Unreleased\n\n- Something changed.\n"
DAY = "2031-02-03"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return the files of this repository that name its version, and a changelog with one change."""
    for file in [found for pattern in NAMING for found in ROOT.glob(pattern)]:
        target = tmp_path / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        copy(file, target)
    (tmp_path / "CHANGELOG.md").write_text(UNRELEASED, "utf-8")
    return tmp_path


def release(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script on a checkout."""
    command = [sys.executable, str(ROOT / "scripts/release.py"), *arguments, "--root", str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def declared(file: Path) -> list[Requirement]:
    """Return all requirements of a `pyproject.toml`, those of its extras included."""
    project = tomllib.loads(file.read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {}).values()
    return [Requirement(line) for lines in [project.get("dependencies", []), *extras] for line in lines]


def members(root: Path) -> list[Path]:
    """Return the `pyproject.toml` of each member."""
    files = [file for file in root.glob("**/pyproject.toml") if file.parent != root]
    return [file for file in files if not {"third_party", "examples"}.intersection(file.relative_to(root).parts)]


def test_versions_and_bounds_of_this_checkout_agree() -> None:
    done = release(ROOT, "--check")

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("version", "below"), [("0.97.0", "0.98"), ("0.97.3", "0.98"), ("7.1.0", "8")])
def test_a_release_writes_the_version_and_bounds_everywhere(checkout: Path, version: str, below: str) -> None:
    done = release(checkout, version, "--date", DAY)

    assert done.returncode == 0, done.stderr
    files = members(checkout)
    assert len(files) > 20
    for file in [checkout / "pyproject.toml", *files]:
        assert tomllib.loads(file.read_text("utf-8"))["project"]["version"] == version
    between = {str(need.specifier) for file in files for need in declared(file) if need.name.startswith("karenina-")}
    assert between - {""} == {str(Requirement(f"x>={version},<{below}").specifier)}
    assert f'__version__ = "{version}"' in (checkout / "karenina_core/src/karenina_core/catalog.py").read_text("utf-8")
    citation = (checkout / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {version}\n" in citation
    assert citation.endswith(f"\ndate-released: {DAY}\n")
    assert release(checkout, "--check").returncode == 0


def test_a_release_keeps_requirements_of_others(checkout: Path) -> None:
    before = {file: [need for need in declared(file) if "karenina" not in need.name] for file in members(checkout)}

    release(checkout, "0.97.0", "--date", DAY)

    after = {file: [need for need in declared(file) if "karenina" not in need.name] for file in members(checkout)}
    assert {file: list(map(str, needs)) for file, needs in after.items()} == {
        file: list(map(str, needs)) for file, needs in before.items()
    }


def test_examples_of_third_parties_accept_the_released_version(checkout: Path) -> None:
    release(checkout, "0.97.4", "--date", DAY)

    files = [
        file
        for folder in ("examples/plugins", "tests/third_party")
        for file in checkout.glob(f"{folder}/*/pyproject.toml")
    ]
    needs = [need for file in files for need in declared(file)]
    ours = [need for need in needs if need.name.startswith("karenina-")]
    assert ours
    assert all(need.specifier.contains("0.97.0") and not need.specifier.contains("0.98.0") for need in ours)
    assert '"karenina-core>=0.97,<0.98"' in (checkout / "docs/how-to/plugins.md").read_text("utf-8")


def test_a_release_dates_what_was_unreleased(checkout: Path) -> None:
    release(checkout, "0.97.0", "--date", DAY)

    text = (checkout / "CHANGELOG.md").read_text("utf-8")
    assert text == f"# Changelog\n\n## Unreleased\n\n## 0.97.0 ({DAY})\n\n- Something changed.\n"


def test_a_second_release_of_a_day_updates_the_citation(checkout: Path) -> None:
    release(checkout, "0.97.0", "--date", "2030-01-01")
    (checkout / "CHANGELOG.md").write_text(UNRELEASED, "utf-8")
    release(checkout, "0.97.1", "--date", DAY)

    assert (checkout / "CITATION.cff").read_text("utf-8").count("date-released") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["0.0.1"], "0.0.1 is not later than"),
        (["next"], "'next' is not a version; write one such as 0.2.0 or 0.2.0rc1"),
        ([], "specify either a version or --check"),
        (["9.9.9", "--check"], "specify either a version or --check"),
    ],
)
def test_a_wrong_release_changes_nothing(checkout: Path, arguments: list[str], message: str) -> None:
    done = release(checkout, *arguments)

    assert done.returncode == 2
    assert message in done.stderr
    assert release(checkout, "--check").returncode == 0
    assert (checkout / "CHANGELOG.md").read_text("utf-8") == UNRELEASED


def test_a_release_without_changes_is_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 0.0.1 (2020-01-01)\n\n- Old.\n", "utf-8")

    done = release(checkout, "0.97.0")

    assert done.returncode == 2
    assert (
        'CHANGELOG.md has nothing under "## Unreleased"; add a description of the user-visible changes there'
        in done.stderr
    )
    assert release(checkout, "--check").returncode == 0


def test_a_version_that_differs_is_named(checkout: Path) -> None:
    file = checkout / "plugins/checks/pyproject.toml"
    file.write_text(file.read_text("utf-8").replace('version = "', 'version = "0.'), "utf-8")

    done = release(checkout, "--check")

    assert done.returncode == 1
    assert "plugins/checks/pyproject.toml: does not match version" in done.stdout
    assert len(done.stdout.splitlines()) == 1


def test_wheels_of_two_builds_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "karenina-0.0.1-py3-none-any.whl").touch()

    command = [sys.executable, str(ROOT / "scripts/build_wheels.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "is not empty; move its files, or choose another folder" in done.stderr


def test_wheels_that_are_not_there_are_not_tried(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts/try_wheels.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "does not contain a wheel of karenina; run scripts/build_wheels.py first" in done.stderr
