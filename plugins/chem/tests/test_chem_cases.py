"""The tables of cases: `own.jsonl`, and those by authors who had seen only the design or the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from karenina_chem.same_formula import SameFormula
from karenina_chem.same_molecule import SameMolecule
from karenina_template.templates import Primitive
from karenina_testing.verdict_rows import check_verdict, verdict_rows

PRIMITIVES: dict[str, type[Primitive]] = {"SameMolecule": SameMolecule, "SameFormula": SameFormula}


@pytest.mark.parametrize("case", verdict_rows(Path(__file__).parent / "cases"))
def test_a_case_has_its_verdict(case: dict[str, Any]) -> None:
    rule = PRIMITIVES[case["primitive"]].model_validate(case["rule"])

    check_verdict(rule, case)
