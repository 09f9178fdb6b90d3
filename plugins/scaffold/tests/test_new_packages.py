"""Each kind of package that `karenina new` writes passes its own tests and is shown by the command.

`tests/test_new_packages_installed.py` has the tests of packages that need all of Karenina.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from generated_packages import make_importable, run_python
from typer.testing import CliRunner

from karenina_cli.app import build_app
from karenina_scaffold.kinds import KINDS

TESTED = [kind for kind in KINDS if not KINDS[kind].tests]
"""The kinds whose tests need no more than this distribution and its tests."""


SHOW = """
import json, sys
from typer.testing import CliRunner
from karenina_cli.app import build_app

shown = [CliRunner().invoke(build_app(), line.split()) for line in sys.argv[1:]]
print(json.dumps([(one.exit_code, one.stdout) for one in shown]))
"""
PLAN = "plan --set my_check.enabled=true --set slots.parse_template=MyParseStage"
LISTS = (PLAN, "plan", "primitives my_primitive.MyPrimitive", "traits my_trait.short", "plugins", "--help", "config")
"""Commands that all run in one process, because to start one takes longer."""


class Generated(NamedTuple):
    """The packages of all kinds, and the folder that makes them importable."""

    packages: dict[str, Path]
    site: Path


class Outcomes(NamedTuple):
    """The outcomes of the tests of packages by kind: messages of those that failed, and how many passed."""

    failed: dict[str, list[str]]
    passed: dict[str, int]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    """Generate a package of each kind."""
    folder, site = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("site")
    for kind in KINDS:
        done = CliRunner().invoke(build_app(), ["new", kind, f"my-{kind}", "--into", str(folder)])
        assert done.exit_code == 0, done.output
    packages = {kind: folder / f"my-{kind}" for kind in KINDS}
    for package in packages.values():
        make_importable(package, site)
    return Generated(packages, site)


@pytest.fixture(scope="module")
def outcomes(generated: Generated, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Run the tests of the packages in `TESTED` in one process."""
    report = tmp_path_factory.mktemp("outcomes") / "report.xml"
    tests = [generated.packages[kind] / "tests" for kind in TESTED]
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", tests[0].parents[1], "--junit-xml", report]
    done = run_python(["-m", "pytest", *options, *tests], generated.site)
    assert report.exists(), done.stdout + done.stderr
    failed: dict[str, list[str]] = {kind: [] for kind in TESTED}
    passed = dict.fromkeys(TESTED, 0)
    for case in ElementTree.parse(report).iter("testcase"):
        kind = next(kind for kind in TESTED if f"test_my_{kind.replace('-', '_')}" in case.attrib["classname"])
        if len(case):
            failed[kind].append(f"{case.attrib['name']}: {case[0].attrib.get('message')}")
        else:
            passed[kind] += 1
    return Outcomes(failed, passed)


@pytest.mark.parametrize("kind", TESTED)
def test_a_generated_package_passes_its_contract_tests(outcomes: Outcomes, kind: str) -> None:
    assert outcomes.failed[kind] == []
    assert outcomes.passed[kind] >= 8


@pytest.mark.parametrize("kind", KINDS)
def test_a_generated_package_is_short_and_complete(generated: Generated, kind: str) -> None:
    package = generated.packages[kind]
    texts = {
        file.relative_to(package).as_posix(): file.read_text("utf-8")
        for file in package.rglob("*.*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    module = f"my_{kind.replace('-', '_')}"

    assert set(texts) == {
        "README.md",
        "pyproject.toml",
        f"src/{module}/__init__.py",
        f"src/{module}/py.typed",
        *(f"src/{module}/{name}.py" for name in KINDS[kind].modules),
        f"tests/test_{module}.py",
    }
    assert all("$" not in text for text in texts.values())
    assert len(texts[f"src/{module}/__init__.py"].splitlines()) < (60 if kind == "adapter" else 100)
    assert max(len(line) for text in texts.values() for line in text.splitlines()) <= 120


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_requires_what_it_imports(generated: Generated, kind: str) -> None:
    package = generated.packages[kind]
    project = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"]
    required = {re.split(r"[>\[]", line)[0].replace("-", "_") for line in project["dependencies"]}
    sources = [source.read_text("utf-8") for source in package.glob("src/*/*.py")]
    imported = {
        name.partition(".")[0]
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }

    assert (
        imported & {name for name in imported if name.startswith(("karenina", "aiohttp", "pydantic", "typer"))}
        == required
    )


@pytest.fixture(scope="module")
def printed(generated: Generated) -> dict[str, str]:
    """Return what each of `LISTS` prints with all packages installed."""
    done = run_python(["-c", SHOW, *LISTS], generated.site)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [code for code, _ in found] == [0] * len(LISTS)
    return dict(zip(LISTS, (text for _, text in found), strict=True))


def test_a_stage_is_in_the_plan(printed: dict[str, str]) -> None:
    stages = ("MyStage  no slot", "MyCheck  no slot", "MyParseStage  slot parse")
    assert [stage in printed[PLAN] for stage in stages] == [True] * 3


def test_installing_the_packages_turns_no_check_on(printed: dict[str, str]) -> None:
    assert "MyCheck: my_check.enabled is false" in printed["plan"]
    assert "MyParseStage: not selected by the configuration" in printed["plan"]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("primitives my_primitive.MyPrimitive", "verify_with: my_primitive.MyPrimitive"),
        ("traits my_trait.short", "{type: my_trait.short"),
        ("plugins", "my_adapter.chat  loaded"),
        ("plugins", "my-format  loaded"),
        ("--help", "my-command"),
        ("config", "my_observer.file = "),
        ("config", "my_panel.enabled = false"),
    ],
)
def test_the_command_lists_what_a_package_offers(printed: dict[str, str], command: str, shown: str) -> None:
    assert shown in printed[command]


def test_a_benchmark_uses_the_packages_together(generated: Generated, tmp_path: Path) -> None:
    file = tmp_path / "genes.yaml"
    file.write_text("""karenina: 1
name: Genes
config: {evaluation_mode: template_and_rubric}
rubric:
  - {type: my_trait.short, name: brief, words: 50}
questions:
  - question: Which gene is the target of venetoclax?
    answer:
      gene: {description: The gene that is named, ground_truth: BCL2, verify_with: my_primitive.MyPrimitive}
""")
    lines = tmp_path / "genes.myformat"
    lines.write_text("Which gene is the target of venetoclax? | BCL2\n")

    for benchmark in (file, lines):
        done = run_python(["-c", "from karenina_cli import main; main()", "check", benchmark], generated.site)
        assert (done.returncode, done.stdout) == (0, "1 question read: 0 errors, 0 warnings.\n"), done.stderr
