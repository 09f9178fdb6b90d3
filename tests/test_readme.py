"""README and docs: the printed stage works, the example loads, and links lead to files."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from karenina import Benchmark

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SECTION = re.search(r"^## Add a stage$(.*?)^## ", (ROOT / "docs/plugins.md").read_text("utf-8"), re.S | re.M)
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.fixture
def printed() -> dict[str, list[str]]:
    assert SECTION is not None
    found: dict[str, list[str]] = {"python": [], "toml": []}
    for language, code in re.findall(r"^```(python|toml)\n(.*?)^```", SECTION[1], re.S | re.M):
        found[language].append(code)
    return found


def test_the_printed_stage_passes_its_test(printed: dict[str, list[str]], tmp_path: Path) -> None:
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


def test_the_printed_project_file_names_the_stage(printed: dict[str, list[str]]) -> None:
    (project,) = map(tomllib.loads, printed["toml"])

    assert project["project"]["dependencies"] == ["karenina-core>=0.1,<0.2"]
    assert project["project"]["entry-points"]["karenina.stages"] == {"WordCount": "my_package:plugin"}


def test_the_example_of_the_readme_loads(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```", README.read_text("utf-8"), re.S | re.M)
    (tmp_path / "genes.yaml").write_text(example, "utf-8")

    benchmark = Benchmark.load(tmp_path / "genes.yaml")

    assert list(benchmark.ids) == ["q1-which-gene-is", "q2-in-which-year"]


def test_the_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 120


def test_every_docs_page_is_linked_in_the_readme() -> None:
    links = re.findall(r"\]\(([^)#]+)", README.read_text("utf-8"))

    assert {f"docs/{page.name}" for page in ROOT.glob("docs/*.md")} <= set(links)


@pytest.mark.parametrize("page", [page.relative_to(ROOT).as_posix() for page in PAGES])
def test_links_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text("utf-8"))

    assert [link for link in links if "://" not in link and not (ROOT / page).parent.joinpath(link).exists()] == []
