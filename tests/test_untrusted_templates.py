"""Code in a benchmark file runs neither on load, nor on plan, nor on run, before the user trusted it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from karenina_core import Benchmark

FIELD = 'description="d", ground_truth="x", verify_with=ExactMatch()'
EVIL = {
    "class level": f"class Answer(BaseAnswer):\n    CODE\n    gene: str = VerifiedField({FIELD})\n",
    "default": "class Answer(BaseAnswer):\n    gene: str = VerifiedField("
    'description="d", ground_truth=CODE, verify_with=ExactMatch())\n',
    "decorator": f"@CODE\nclass Answer(BaseAnswer):\n    gene: str = VerifiedField({FIELD})\n",
    "annotation": f"class Answer(BaseAnswer):\n    gene: CODE = VerifiedField({FIELD})\n",
    "text annotation": f"class Answer(BaseAnswer):\n    gene: 'CODE' = VerifiedField({FIELD})\n",
    "module level": f"CODE\nclass Answer(BaseAnswer):\n    gene: str = VerifiedField({FIELD})\n",
}


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "executed"


def benchmark_with(where: str, marker: Path) -> Path:
    code = f'__import__("os").system("touch {marker}")'
    file = marker.with_name("benchmark.jsonld")
    benchmark = Benchmark.create(name="from a stranger")
    source = EVIL[where].replace("'CODE'", repr(code)).replace("CODE", code)
    benchmark.add_question("Which gene?", "x", source, question_id="q")
    benchmark.save(file)
    return file


def karenina(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("karenina")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.parametrize("where", EVIL)
def test_nothing_runs_without_trust_and_the_error_says_what_to_do(where: str, marker: Path) -> None:
    file = benchmark_with(where, marker)
    (marker.parent / "answers.jsonl").write_text(json.dumps({"id": "q", "response": "x"}) + "\n")
    Benchmark.load(file)
    plan = karenina("plan", str(file), folder=marker.parent)
    arguments = ["--recordings", "answers.jsonl", "--judge", "openai:nobody@http://127.0.0.1:9/v1", "--json"]
    run = karenina("run", str(file), *arguments, folder=marker.parent)
    assert not marker.exists()
    assert plan.returncode == 0
    (result,) = json.loads(run.stdout)["results"]
    assert result["outcome"] == "template_error"
    assert "karenina trust" in result["metadata"]["error"]


@pytest.mark.parametrize("where", ["class level", "default", "decorator", "module level"])
def test_the_marker_would_appear(where: str, marker: Path) -> None:
    file = benchmark_with(where, marker)
    (marker.parent / "answers.jsonl").write_text(json.dumps({"id": "q", "response": "x"}) + "\n")
    arguments = ["--recordings", "answers.jsonl", "--judge", "openai:nobody@http://127.0.0.1:9/v1", "--trust-all"]
    karenina("run", str(file), *arguments, "--json", folder=marker.parent)
    assert marker.exists()
