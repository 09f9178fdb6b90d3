"""The files that come with every project and every distribution: licence, READMEs, changelog, citation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from shutil import copy
from typing import Any

import pytest
import yaml
from left_to_release import LEFT

ROOT = Path(__file__).parents[1]
PATTERNS = ("karenina_core", "karenina", "plugins/*", "adapters/*")
MEMBERS = sorted(
    file.parent.relative_to(ROOT).as_posix() for pattern in PATTERNS for file in ROOT.glob(f"{pattern}/pyproject.toml")
)
LICENCE = (ROOT / "LICENSE").read_text("utf-8")


def pyproject(member: str) -> dict[str, Any]:
    """Return the declarations of a member."""
    return tomllib.loads((ROOT / member / "pyproject.toml").read_text("utf-8"))


def install_command(member: str) -> str:
    """Return the command that installs a member for a user."""
    extra = pyproject(member).get("tool", {}).get("karenina", {}).get("extra")
    return f"pip install 'karenina[{extra}]'" if extra else "pip install karenina"


@pytest.mark.parametrize("member", [".", *MEMBERS])
def test_every_distribution_carries_the_licence(member: str) -> None:
    project = pyproject(member)["project"]

    assert project["license"] == "Apache-2.0"
    assert project["license-files"] == ["LICENSE"]
    assert (ROOT / member / "LICENSE").read_text("utf-8") == LICENCE
    assert "Apache License" in LICENCE


@pytest.mark.parametrize("member", MEMBERS)
def test_every_distribution_has_a_readme_of_ten_lines(member: str) -> None:
    project = pyproject(member)["project"]
    text = (ROOT / member / project["readme"]).read_text("utf-8")
    lines = [line for line in text.splitlines() if line]

    assert lines[0] == f"# {project['name']}"
    assert f"    {install_command(member)}" in lines
    assert 6 <= len(lines) <= 10
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("member", MEMBERS)
def test_a_readme_names_what_the_distribution_offers(member: str) -> None:
    project = pyproject(member)["project"]
    text = (ROOT / member / project["readme"]).read_text("utf-8")
    offered = [*project.get("entry-points", {}).get("karenina.stages", {})]
    offered += project.get("entry-points", {}).get("karenina.adapters", {})

    assert [name for name in offered if f"`{name}`" not in text] == []


def test_the_changelog_begins_with_what_is_unreleased() -> None:
    headings = re.findall(r"^## .*$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)

    assert headings[0] == "## Unreleased"
    assert all(re.fullmatch(r"## \d+(\.\w+)+ \(\d{4}-\d\d-\d\d\)", heading) for heading in headings[1:])


def test_moved_names_are_where_the_changelog_says() -> None:
    rows = re.findall(
        r"^\| (`karenina_core\.\S.*) \| (.*) \|$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    names = [name for _, now in rows for name in re.findall(r"`([\w.]+)`", now)]

    assert len(rows) > 10
    for name in names:
        module, _, last = name.rpartition(".")
        if module:
            assert hasattr(import_module(module), last) or import_module(name)


def test_names_for_authors_are_where_the_changelog_says() -> None:
    """In tables of modules, names are relative to the row's first name or to the distribution that has the rooms."""

    def exists(name: str) -> bool:
        try:
            resolve_name(name)
        except (ImportError, AttributeError):
            return False
        return True

    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    section = text.partition("### For authors of plugins\n")[2].partition("\n### ")[0]
    wrong, checked = [], 0
    for indent, now in re.findall(r"^( *)\| .* \| (.*) \|$", section, re.MULTILINE):
        names = re.findall(r"`([\w.]+)`", now)
        near = [names[0][: dot.end()] for dot in re.finditer(r"\.", names[0])] if names else []
        rooms = ["", *near, "karenina_engine.", "karenina_template.", *(f"karenina_template.{room}" for room in near)]
        for name in names:
            if indent or name.startswith("karenina_"):
                checked += 1
                if not any(exists(f"{room}{name}") for room in (rooms if indent else [""])):
                    wrong.append(name)
    assert checked > 60
    assert wrong == []


def test_the_citation_has_what_its_format_requires() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))

    assert {"cff-version", "message", "title", "authors", "version", "license"} <= set(citation)
    assert citation["license"] == pyproject(".")["project"]["license"]
    assert str(citation["version"]) == pyproject(".")["project"]["version"]


def test_pre_commit_hooks_run_without_a_network(tmp_path: Path) -> None:
    for name in (".pre-commit-config.yaml", "pyproject.toml"):
        copy(ROOT / name, tmp_path)
    (tmp_path / "untidy.py").write_text('"""A module."""\n\nimport os\nx = {  }\n', "utf-8")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        **dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"), "http://127.0.0.1:9"),
        "PRE_COMMIT_HOME": str(tmp_path / "home"),
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]),
    }

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    assert run("git", "init", "-q").returncode == 0
    assert run("git", "add", "untidy.py").returncode == 0
    for hook in ("ruff-check", "ruff-format"):
        done = run(sys.executable, "-m", "pre_commit", "run", hook, "--all-files")
        assert "files were modified by this hook" in done.stdout, done.stderr
        run("git", "add", "untidy.py")

    assert (tmp_path / "untidy.py").read_text("utf-8") == '"""A module."""\n\nx = {}\n'


def test_pre_commit_hooks_use_installed_tools_alone() -> None:
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    hooks = [hook for repository in repositories for hook in repository["hooks"]]

    assert {repository["repo"] for repository in repositories} == {"local"}
    assert {hook["language"] for hook in hooks} == {"system"}
    assert {hook["entry"].split()[0] for hook in hooks} == {"ruff", "lint-imports", "python"}


@pytest.mark.parametrize("name", LEFT)
def test_a_test_that_is_left_to_releases_exists(name: str) -> None:
    file, *within = name.split("::")

    contracts = (ROOT / "plugins/testing/src/karenina_testing/contracts").glob("*.py")
    places = [ROOT / file] if len(within) == 1 else contracts

    assert any(f"def {within[-1]}(" in place.read_text("utf-8") for place in places)
    assert LEFT[name].why
