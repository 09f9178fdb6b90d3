"""Packages of `karenina new`, installed as wheels: their tests, the plan, and the tools of their authors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Environment, Wheels

from karenina_scaffold.kinds import KINDS

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.timeout(900)  # building and checking packages takes minutes on a busy machine


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a generated package of each kind."""
    folder = tmp_path_factory.mktemp("generated")
    site = Environment(folder)
    for kind in KINDS:
        done = site.karenina("new", kind, f"my-{kind}")
        assert done.returncode == 0, done.stderr
    return {kind: folder / f"my-{kind}" for kind in KINDS}


def test_installed_packages_pass_their_tests_and_are_planned(
    site: Environment, wheels: Wheels, packages: dict[str, Path]
) -> None:
    site.install(*(wheels.source(package) for package in packages.values()))
    quick = [package / "tests" for kind, package in packages.items() if not KINDS[kind].tests]

    tests = site.pytest("--rootdir", site.folder, *quick)
    plan = site.printed("plan", "--set", "my_check.enabled=true", "--set", "slots.parse_template=MyParseStage")
    listed = site.printed("plugins")["plugins"]

    assert tests.returncode == 0, tests.stdout + tests.stderr
    owners = {stage["name"]: stage["distribution"] for stage in plan["stages"]}
    assert owners.items() >= {("MyStage", "my-stage"), ("MyCheck", "my-check"), ("MyParseStage", "my-parse-stage")}
    states = {one["distribution"]: one["state"] for one in listed if one["distribution"].startswith("my-")}
    assert states == {f"my-{kind}": "loaded" for kind in KINDS}


RUNNING = [kind for kind in KINDS if KINDS[kind].tests]


@pytest.mark.parametrize("kind", RUNNING)
def test_an_installed_package_passes_tests_that_run_the_command(
    site: Environment, wheels: Wheels, packages: dict[str, Path], kind: str
) -> None:
    site.install(wheels.source(packages[kind]))

    tests = site.pytest("--rootdir", site.folder, packages[kind] / "tests", script=kind == RUNNING[0])

    assert tests.returncode == 0, tests.stdout + tests.stderr


def test_generated_code_passes_ruff(packages: dict[str, Path]) -> None:
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", *packages.values()],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout


def test_generated_code_passes_mypy_in_strict_mode(packages: dict[str, Path], tmp_path: Path) -> None:
    sources = [*ROOT.glob("plugins/*/src"), ROOT / "karenina_core" / "src"]
    search = [str(source) for source in (*(package / "src" for package in packages.values()), *sources)]
    code = [folder for package in packages.values() for folder in (package / "src", package / "tests")]

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", *code],
        cwd=tmp_path,
        env={
            **os.environ,
            "MYPYPATH": os.pathsep.join(search),
            "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache" / "generated"),
        },
        capture_output=True,
        text=True,
        timeout=280,
    )

    assert done.returncode == 0, done.stdout + done.stderr
