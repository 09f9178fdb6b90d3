"""The tables of cases: `own.jsonl`, `stranger.jsonl` by an author who had seen only the design, and `reported.jsonl` of
names that were compared wrongly."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from karenina_template.templates import Undecided
from karenina_terms.same_term import SameTerm

CASES = [
    (f"{file.stem}:{number}", json.loads(line))
    for file in sorted((Path(__file__).parent / "cases").glob("*.jsonl"))
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1)
]


@pytest.mark.parametrize("case", [pytest.param(case, id=place) for place, case in CASES])
def test_a_case_has_its_verdict(case: dict[str, Any], tmp_path: Path) -> None:
    with (tmp_path / "terms.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["id", "name", "synonyms"])
        writer.writeheader()
        for row in case["table"]:
            names = row["synonyms"]
            writer.writerow({**row, "synonyms": names if isinstance(names, str) else "|".join(names)})
    rule = SameTerm.model_validate({"table": str(tmp_path / "terms.csv"), **case["rule"]})
    rule.check_expected(case["truth"])
    rule.check_files(case["truth"])
    verdict = rule.check_extracted(case["value"], case["truth"], case["response"])

    assert ("undecided" if isinstance(verdict, Undecided) else verdict) == case["expected"], (case["why"], verdict)
