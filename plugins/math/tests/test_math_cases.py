"""The tables of cases: `own.jsonl`, `stranger.jsonl` by an author who had seen only the design, and `reported.jsonl` of
answers that the tests of other graders contain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from karenina_math.math_equal import MathEqual
from karenina_testing.verdict_rows import check_verdict, verdict_rows


@pytest.mark.parametrize("case", verdict_rows(Path(__file__).parent / "cases"))
def test_a_case_has_its_verdict(case: dict[str, Any]) -> None:
    rule = MathEqual.model_validate(case["rule"])

    check_verdict(rule, case)
