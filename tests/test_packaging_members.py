"""The distributions of this repository are consistent, and each is tested with its declared requirements."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import karenina_core

ROOT = Path(__file__).parents[1]
MEMBERS = sorted(
    file.parent.relative_to(ROOT).as_posix()
    for pattern in ("karenina_core", "karenina", "plugins/*", "adapters/*")
    for file in ROOT.glob(f"{pattern}/pyproject.toml")
)
HEAVY = (
    "torch",
    "langchain",
    "sentence-transformers",
    "transformers",
    "claude-agent-sdk",
    "anthropic",
    "ray",
    "openai",
)
TOOLS = {"hypothesis", "pytest", "pytest-socket", "pytest-timeout", "pytest-xdist"}
PARTS = ("members-adapters", "members-files", "members-stages")
SHARED = ("all", *PARTS, "docs", "lint")


def project(member: str) -> dict[str, Any]:
    """Return a member's `pyproject.toml`; the root's is that of "."."""
    return tomllib.loads((ROOT / member / "pyproject.toml").read_text("utf-8"))


def requirements(member: str, extra: str | None = None) -> list[Requirement]:
    """Return what a member declares; with `extra`, also what that extra of it does."""
    declared = project(member)["project"]
    more = declared.get("optional-dependencies", {}).get(extra, [])
    return [Requirement(line) for line in [*declared["dependencies"], *more]]


NAMES = {canonicalize_name(project(member)["project"]["name"]): member for member in MEMBERS}


def needed(member: str, extra: str | None = None) -> set[str]:
    """Return the members that it needs, its own folder and those of what they need included."""
    found = {member}
    for requirement in requirements(member, extra):
        name = canonicalize_name(requirement.name)
        if name in NAMES and NAMES[name] != member:
            found |= needed(NAMES[name])
    return found


def editable(lines: str) -> set[str]:
    """Return the folders of the `-e` lines."""
    return {match[1] for match in re.finditer(r"^\s*-e\s+([\w/]+)(\[[\w,]+\])?\s*$", lines, re.MULTILINE)}


@pytest.fixture(scope="session")
def tox(tmp_path_factory: pytest.TempPathFactory) -> configparser.ConfigParser:
    """Return the configuration that tox makes of `tox.ini` and `toxfile.py`, one section for each environment.

    In its `deps`, the files of requirements that `toxfile.py` writes are replaced by their lines.
    """
    work = str(tmp_path_factory.mktemp("tox"))
    command = [sys.executable, "-m", "tox", "config", "--workdir", work, "-c", str(ROOT / "tox.ini"), "--core"]
    command += ["-e", ",".join([*SHARED, "members-py313", *map(environment, MEMBERS)])]
    command += ["-k", "deps", "commands", "depends", "env_list", "env_python", "labels"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TOX")}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    found = configparser.RawConfigParser(strict=False, delimiters=("=",))
    found.read_string(done.stdout)
    for section in found.values():
        lines = section.get("deps", "").splitlines()
        written = [Path(line[3:]).read_text("utf-8") if line.startswith(f"-r {work}") else line for line in lines]
        section["deps"] = "\n".join(written)
    return found


def environment(member: str) -> str:
    """Return the name of a member's tox environment."""
    return {"karenina_core": "core", "karenina": "api"}.get(member, member.rpartition("/")[2])


def test_there_are_members() -> None:
    assert {"karenina_core", "plugins/template", "adapters/local"} <= set(MEMBERS)


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_is_laid_out_like_the_others(member: str) -> None:
    name = project(member)["project"]["name"]
    package = "karenina" if member == "karenina" else name.replace("-", "_")

    assert canonicalize_name(name) == canonicalize_name(f"karenina-{environment(member)}")
    assert (ROOT / member / "src" / package / "py.typed").is_file()
    assert list((ROOT / member / "tests").glob("test_*.py"))
    assert [path.name for path in (ROOT / member / "src").iterdir() if not path.name.startswith(".")] == [package]
    assert project(member)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [f"src/{package}"]


def test_the_core_knows_its_version() -> None:
    assert karenina_core.__version__ == project("karenina_core")["project"]["version"]


@pytest.mark.parametrize("member", [member for member in MEMBERS if member != "karenina_core"])
def test_every_member_needs_the_core_itself(member: str) -> None:
    assert "karenina-core" in {need.name for need in requirements(member)}


def test_nothing_heavy_is_in_the_default_set() -> None:
    default = [member for member in MEMBERS if project(member).get("tool", {}).get("karenina", {}).get("default")]

    wanted = {need.name.lower() for member in ["karenina_core", *default] for need in requirements(member)}

    assert {"plugins/template", "adapters/openai"} <= set(default)
    assert [name for name in wanted if name.startswith(HEAVY)] == []


def test_requirements_dev_lists_every_member() -> None:
    text = (ROOT / "requirements-dev.txt").read_text("utf-8")

    assert editable(text) == set(MEMBERS)
    assert TOOLS | {"build", "mypy", "pre-commit", "ruff", "tox", "tox-uv", "twine"} <= set(text.split())


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_is_tested_with_only_what_it_declares(member: str, tox: configparser.ConfigParser) -> None:
    section = tox[f"testenv:{environment(member)}"]
    lines = section["deps"].split("\n")

    assert editable(section["deps"]) == needed(member, "tests")
    assert {line for line in lines if line and not line.startswith("-e ")} == TOOLS
    assert section["commands"].split()[0] == "pytest"
    assert section["commands"].split()[-1] == f"{member}/tests"


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_is_tested_with_the_extras_of_its_tests(member: str, tox: configparser.ConfigParser) -> None:
    found = {Requirement(line.replace("-e ", "").replace("/", ".")) for line in deps(tox, member) if "-e " in line}
    extras = {need.name.replace(".", "/"): need.extras for need in found}
    wanted = {NAMES[need.name]: need.extras for need in requirements(member, "tests") if need.name in NAMES}

    assert "tests" in extras[member] or "tests" not in project(member)["project"].get("optional-dependencies", {})
    assert all(more <= extras[name] for name, more in wanted.items())


def test_ci_runs_the_tests_of_every_member_and_of_everything_together(tox: configparser.ConfigParser) -> None:
    first, *others = tox["tox"]["env_list"].split()
    tested = [member for part in PARTS for member in members_of(part, tox)]
    own = {member for member in MEMBERS if environment(member) in others}

    assert first == "all"
    assert sorted(others) == sorted(["docs", "lint", *PARTS, "py312", "py313", "wheels", *map(environment, own)])
    assert others.index("wheels") > 1, "the tests of `local` have had the time to get the models of the demo"
    assert own == {"adapters/local", "plugins/embedding", "plugins/ray"}
    assert sorted(tested) == sorted(set(MEMBERS) - own)


def test_environments_with_every_member_are_one_installation(tox: configparser.ConfigParser) -> None:
    (lines,) = {tox[f"testenv:{name}"]["deps"] for name in SHARED}
    assert "-r requirements-dev.txt" in lines.splitlines()
    tested = [member for part in PARTS for member in members_of(part, tox)]
    declared = {member: project(member)["project"].get("optional-dependencies", {}) for member in tested}
    wanted = [member for member, extras in declared.items() if "tests" in extras]
    assert [member for member in wanted if not re.search(rf"^-e {member}\[[\w,]*\btests\b", lines, re.MULTILINE)] == []
    (python,) = {tox[f"testenv:{name}"]["env_python"] for name in SHARED}
    assert python not in {tox[f"testenv:{environment(member)}"]["env_python"] for member in MEMBERS}


def members_of(part: str, tox: configparser.ConfigParser) -> list[str]:
    """Return the members whose tests an environment runs."""
    beside, *_ = commands(part, tox)
    assert beside[:3] == ["pytest", "-m", "not forks and not release"]
    return [word.removesuffix("/tests") for word in beside[3:]]


def commands(part: str, tox: configparser.ConfigParser) -> list[list[str]]:
    """Return the commands of an environment."""
    return [shlex.split(line) for line in tox[f"testenv:{part}"]["commands"].strip().split("\n")]


def forking_files(tox: configparser.ConfigParser) -> list[str]:
    """Return the files whose tests have a process of their own."""
    return [file for part in PARTS for command in commands(part, tox)[1:] for file in command[3:]]


def test_every_file_with_tests_that_fork_is_named_for_a_process_without_threads(tox: configparser.ConfigParser) -> None:
    apart = [command for part in PARTS for command in commands(part, tox)[1:]]
    forking = forking_files(tox)

    assert forking
    assert {tuple(command[:3]) for command in apart} == {("pytest", "-m", "forks and not release")}
    for member in MEMBERS:
        for file in (ROOT / member / "tests").rglob("*.py"):
            assert ("mark.forks" in file.read_text("utf-8")) == (file.relative_to(ROOT).as_posix() in forking), file


def test_a_release_tests_each_member_alone_and_with_every_version_of_python(tox: configparser.ConfigParser) -> None:
    (release,) = re.findall(r"^release=(.*?)(?:^\w+=|\Z)", tox["tox"]["labels"].strip(), re.MULTILINE | re.DOTALL)
    release = set(release.split())

    assert {"release", "members-py312", "members-py313"} <= release
    assert release | set(tox["tox"]["env_list"].split()) >= set(map(environment, MEMBERS))
    beside, apart = commands("members-py313", tox)
    assert beside[:4] == ["pytest", "--hypothesis-profile=thorough", "-m", "not forks"]
    assert apart[:4] == ["pytest", "--hypothesis-profile=thorough", "-m", "forks"]
    assert sorted(beside[4:]) == sorted(f"{member}/tests" for part in PARTS for member in members_of(part, tox))
    assert sorted(apart[4:]) == sorted(
        file for part in PARTS for command in commands(part, tox)[1:] for file in command[3:]
    )


@pytest.mark.parametrize("member", [".", *MEMBERS])
def test_a_member_names_the_versions_of_python_that_are_tested(member: str) -> None:
    versions = [f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)]

    assert project(member)["project"]["requires-python"] == ">=3.11"
    assert [line for line in project(member)["project"]["classifiers"] if ":: 3." in line] == versions


def test_every_member_is_typed() -> None:
    checked = project(".")["tool"]["mypy"]["files"]

    assert {file for pattern in checked for file in ROOT.glob(pattern)} >= {ROOT / member / "src" for member in MEMBERS}


def deps(tox: configparser.ConfigParser, member: str) -> list[str]:
    """Return what tox installs for the tests of a member."""
    return tox[f"testenv:{environment(member)}"]["deps"].split("\n")
