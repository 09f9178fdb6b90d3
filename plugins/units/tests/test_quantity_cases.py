"""The tables of cases: `own.jsonl`, and `stranger.jsonl` by an author who had seen only the design."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from karenina_testing.verdict_rows import check_verdict, verdict_rows
from karenina_units.quantity import Quantity


@pytest.mark.parametrize("case", verdict_rows(Path(__file__).parent / "cases"))
def test_a_case_has_its_verdict(case: dict[str, Any]) -> None:
    rule = Quantity.model_validate(case["rule"])

    check_verdict(rule, case)
