"""`Choice`: the tables of cases (`stranger.jsonl` by an author who had seen only the design), and the contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from karenina_template.templates import Choice, Undecided
from karenina_testing.contracts import PrimitiveContract

CASES = [
    (f"{file.stem}:{number}", json.loads(line))
    for file in sorted((Path(__file__).parent / "cases" / "choice").glob("*.jsonl"))
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1)
]
CAPITALS = {"A": "Quito", "B": "Lima", "C": "Bogotá", "D": "La Paz"}


@pytest.mark.parametrize("case", [pytest.param(case, id=place) for place, case in CASES])
def test_a_case_has_its_verdict(case: dict[str, Any]) -> None:
    rule = Choice.model_validate({"options": case["options"], **case["rule"]})
    rule.check_expected(case["truth"])
    verdict = rule.check_extracted(case["value"], case["truth"], case["response"])

    assert ("undecided" if isinstance(verdict, Undecided) else verdict) == case["expected"], (case["why"], verdict)
