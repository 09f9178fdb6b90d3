"""The tables of cases: `own.jsonl`, and `stranger.jsonl` by an author who had seen only the design."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from karenina_template.templates import Undecided
from karenina_units.quantity import Quantity

CASES = [
    (f"{file.stem}:{number}", json.loads(line))
    for file in sorted((Path(__file__).parent / "cases").glob("*.jsonl"))
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1)
]


@pytest.mark.parametrize("case", [pytest.param(case, id=place) for place, case in CASES])
def test_a_case_has_its_verdict(case: dict[str, Any]) -> None:
    rule = Quantity.model_validate(case["rule"])
    rule.check_expected(case["truth"])
    verdict = rule.check_extracted(case["value"], case["truth"], case["response"])

    accepted = [case["expected"], *(["undecided"] if case.get("or_undecided") else [])]
    assert ("undecided" if isinstance(verdict, Undecided) else verdict) in accepted, (case["why"], verdict)
