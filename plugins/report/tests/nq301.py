"""The recorded verdicts of three judges on NQ301, as results: https://github.com/ehsk/OpenQA-eval (MIT)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from result_builders import result

from karenina_core.data.result import VerificationResult

FILE = Path(__file__).parents[4] / "shared" / "data" / "nq301_openqa_eval.jsonl"
available = pytest.mark.skipif(not FILE.is_file(), reason=f"the recorded data {FILE} is not there")


def rows() -> list[dict[str, Any]]:
    """Return the rows of the file."""
    return [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def judged(judge: str) -> list[VerificationResult]:
    """Return the verdicts of `gpt4`, `davinci003` or `bem`, one result per row; each row is a separate question."""
    return [
        result(
            row["id"],
            row[f"{judge}_judge"],
            judge=judge,
            model="recorded",
            text=row["question"],
            answer=row["response"],
        )
        for row in rows()
    ]
