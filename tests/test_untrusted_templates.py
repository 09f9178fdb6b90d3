"""Code in a benchmark file does not run on load, plan or run before the user trusts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from karenina import Benchmark

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


class Stranger:
    """A benchmark with one question for each place where code may stand, and the command in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        benchmark = Benchmark.create(name="from a stranger")
        answers = ""
        for where, source in EVIL.items():
            code = f'__import__("os").system("touch {self._marker(where)}")'
            source = source.replace("'CODE'", repr(code)).replace("CODE", code)
            benchmark.add_question(f"Which gene ({where})?", "x", source, question_id=where)
            answers += json.dumps({"id": where, "response": "x"}) + "\n"
        benchmark.save(folder / "benchmark.jsonld")
        (folder / "answers.jsonl").write_text(answers)

    def karenina(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("karenina")), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        judge = ["--judge", "openai:nobody@http://127.0.0.1:9/v1"]
        return self.karenina("run", "benchmark.jsonld", "--recordings", "answers.jsonl", *judge, "--json", *more)

    def ran(self) -> list[str]:
        """Return the places of code that was run."""
        return [where for where in EVIL if self._marker(where).exists()]

    def _marker(self, where: str) -> Path:
        return self.folder / where.replace(" ", "_")


@pytest.fixture
def stranger(tmp_path: Path) -> Stranger:
    return Stranger(tmp_path)


def test_untrusted_code_is_an_error_with_the_cure(stranger: Stranger) -> None:
    Benchmark.load(stranger.folder / "benchmark.jsonld")
    assert stranger.karenina("plan", "benchmark.jsonld").returncode == 0
    run = stranger.run()
    assert stranger.ran() == []
    results = {one["metadata"]["question_id"]: one for one in json.loads(run.stdout)["results"]}
    assert {id: one["outcome"] for id, one in results.items()} == dict.fromkeys(EVIL, "template_error")
    assert [id for id, one in results.items() if "karenina trust" not in one["metadata"]["error"]] == []


def test_the_markers_would_appear(stranger: Stranger) -> None:
    stranger.run("--trust-all")
    assert stranger.ran() == list(EVIL)
