"""The tables of cases: `own.jsonl`, and those by authors who had seen only the design or the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from karenina_chem.same_formula import SameFormula
from karenina_chem.same_molecule import SameMolecule
from karenina_template.templates import Primitive, Undecided

CASES = [
    (f"{file.stem}:{number}", json.loads(line))
    for file in sorted((Path(__file__).parent / "cases").glob("*.jsonl"))
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1)
]
PRIMITIVES: dict[str, type[Primitive]] = {"SameMolecule": SameMolecule, "SameFormula": SameFormula}


@pytest.mark.parametrize("case", [pytest.param(case, id=place) for place, case in CASES])
def test_a_case_has_its_verdict(case: dict[str, Any]) -> None:
    rule = PRIMITIVES[case["primitive"]].model_validate(case["rule"])
    rule.check_expected(case["truth"])
    verdict = rule.check_extracted(case["value"], case["truth"], case["response"])

    assert ("undecided" if isinstance(verdict, Undecided) else verdict) == case["expected"], (case["why"], verdict)
