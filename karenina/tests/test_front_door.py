"""The public names for users, and `python -m karenina`."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import karenina

pytestmark = pytest.mark.alone

NAMES = {
    "karenina": "Benchmark Question ModelConfig VerificationConfig VerificationResult VerificationResultSet Outcome "
    "compare write_report",
    "karenina.templates": "BaseAnswer VerifiedField BooleanMatch ExactMatch NumericTolerance AllOf AnyOf AtLeastN",
    "karenina.rubrics": "Rubric DynamicRubric LLMRubricTrait RegexRubricTrait CallableRubricTrait MetricRubricTrait",
}


@pytest.mark.parametrize("module", NAMES)
def test_users_find_the_names_of_the_documentation(module: str) -> None:
    found = import_module(module)

    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []
    assert set(NAMES[module].split()) <= set(found.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Benchmrak"):
        _ = karenina.Benchmrak


def test_importing_it_loads_only_the_core() -> None:
    program = "import sys, karenina; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert [name for name in eval(done.stdout) if name.startswith("karenina")] == ["karenina", "karenina_core"]


def test_python_m_karenina_is_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "karenina", "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "rescore" in done.stdout


def test_python_m_karenina_imports_nothing_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('a stranger is here')\n", "utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "karenina", "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
