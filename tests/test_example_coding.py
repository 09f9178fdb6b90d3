"""The tasks of `examples/coding`: all are right with their solutions, and none without."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import EXAMPLES

from karenina import Benchmark
from karenina_core import Outcome, VerificationConfig
from karenina_sandbox.providers.bwrap import SANDBOX

no_bwrap = SANDBOX.unavailable()


@pytest.mark.skipif(no_bwrap is not None, reason=no_bwrap or "")
def test_the_tasks_are_solved_by_their_solutions_only(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "coding", tmp_path / "coding")
    models = [
        {"id": name, "interface": "manual", "model_name": name, "manual_traces": tmp_path / f"coding/{name}.jsonl"}
        for name in ("solutions", "untouched")
    ]
    config = VerificationConfig(answering_models=models, sandbox="bwrap")
    benchmark = Benchmark.load(tmp_path / "coding/benchmark.yaml")
    results = list(benchmark.run_verification(config, trust="all", journal=tmp_path / "run.journal"))

    outcomes = {
        name: [one.outcome for one in results if one.metadata.answering.model_name == name]
        for name in ("solutions", "untouched")
    }
    assert outcomes == {"solutions": [Outcome.CORRECT] * 3, "untouched": [Outcome.WRONG] * 3}
