"""`karenina run` on recorded answers with human labels: one result per row, and its agreement with the labels."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"


def agreement(name: str, *arguments: str) -> tuple[str, dict[str, tuple[int, float, float]]]:
    """Return the report of `benchmarks/agreement.py`, and judged rows, accuracy and kappa by method."""
    if not (DATA / f"{name}.jsonl").is_file():
        pytest.skip(f"the recorded data is not beside this checkout ({name}.jsonl)")
    program = [sys.executable, str(ROOT / "benchmarks" / "agreement.py"), name.partition("_")[0], *arguments]
    found = subprocess.run(program, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
    sys.stdout.write(found.stdout)
    lines = re.findall(r"^(\w.*?)\s+(\d+)\s+(-?\d\.\d+)\s+(-?\d\.\d+)$", found.stdout, re.MULTILINE)
    return found.stdout, {method: (int(rows), float(accuracy), float(kappa)) for method, rows, accuracy, kappa in lines}


@pytest.mark.timeout(900)  # minutes on a busy machine
def test_templates_without_a_judge_beat_string_matching_on_evouna() -> None:
    report, methods = agreement("evouna")
    assert "1479 rows, 1479 results" in report
    assert methods["karenina"][0] == 1479
    assert methods["karenina"][2] > methods["contains the gold answer"][2] > methods["exact match"][2]


@pytest.mark.release
@pytest.mark.timeout(1800)  # the model takes a minute on idle cores, and many beside other work
def test_a_local_judge_extracts_and_a_program_compares() -> None:
    from karenina_local.download import pull

    pull("qwen2.5-coder-0.5b", "index")
    report, methods = agreement("nq301_openqa_eval", "--rows", "6")
    assert "6 rows, 6 results" in report
    assert methods["karenina"][0] >= 5
