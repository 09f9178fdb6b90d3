"""Code in a benchmark file does not run on load, plan or run before the user trusts it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import preloaded
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
        return preloaded.run(arguments, folder=self.folder, environment=os.environ, timeout=120)

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
    refused = [stranger.karenina("check", "benchmark.jsonld"), stranger.karenina("plan", "benchmark.jsonld")]
    refused.append(stranger.run())
    assert stranger.ran() == []
    assert [one.returncode for one in refused] == [2, 2, 2]
    for one in refused:
        lines = [line for line in (one.stdout + one.stderr).splitlines() if "`karenina trust benchmark.jsonld`" in line]
        assert len(lines) == len(EVIL)


def test_untrusted_code_does_not_run_in_python(stranger: Stranger) -> None:
    benchmark = Benchmark.load(stranger.folder / "benchmark.jsonld")
    answers = dict.fromkeys(EVIL, "x")
    recorded = {"id": "m", "interface": "manual", "model_name": "m", "manual_traces": answers}
    judge = {"id": "j", "interface": "openai", "model_name": "j", "endpoint_base_url": "http://127.0.0.1:9/v1"}
    results = benchmark.run_verification({"answering_models": [recorded], "parsing_models": [judge]})
    assert stranger.ran() == []
    assert {one.question_id: one.outcome for one in results} == dict.fromkeys(EVIL, "template_error")
    assert [one for one in results if "karenina trust" not in (one.metadata.error or "")] == []


def test_the_markers_would_appear(stranger: Stranger) -> None:
    stranger.run("--trust-all")
    assert stranger.ran() == list(EVIL)
