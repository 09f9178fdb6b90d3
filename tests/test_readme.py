"""The stage of the README: its plugin, its project file and its test work as they are printed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SECTION = re.search(
    r"^## Add a stage$(.*?)^## ", Path(__file__).parents[1].joinpath("README.md").read_text("utf-8"), re.S | re.M
)


@pytest.fixture
def printed() -> dict[str, list[str]]:
    assert SECTION is not None
    found: dict[str, list[str]] = {"python": [], "toml": []}
    for language, code in re.findall(r"^```(python|toml)\n(.*?)^```", SECTION[1], re.S | re.M):
        found[language].append(code)
    return found


def test_the_stage_of_the_readme_passes_its_test(printed: dict[str, list[str]], tmp_path: Path) -> None:
    plugin, test = printed["python"]
    (tmp_path / "my_package.py").write_text(plugin, "utf-8")
    (tmp_path / "test_my_package.py").write_text(test, "utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_the_project_file_of_the_readme_names_the_stage(printed: dict[str, list[str]]) -> None:
    (project,) = map(tomllib.loads, printed["toml"])

    assert project["project"]["dependencies"] == ["karenina-core>=0.1,<0.2"]
    assert project["project"]["entry-points"]["karenina.stages"] == {"WordCount": "my_package:plugin"}
