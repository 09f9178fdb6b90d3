"""The tables of cases: `own.jsonl`, `stranger.jsonl` by an author who had seen only the design, and `reported.jsonl` of
names that were compared wrongly."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from karenina_terms.same_term import SameTerm
from karenina_testing.verdict_rows import check_verdict, verdict_rows


@pytest.mark.parametrize("case", verdict_rows(Path(__file__).parent / "cases"))
def test_a_case_has_its_verdict(case: dict[str, Any], tmp_path: Path) -> None:
    with (tmp_path / "terms.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["id", "name", "synonyms"])
        writer.writeheader()
        for row in case["table"]:
            names = row["synonyms"]
            writer.writerow({**row, "synonyms": names if isinstance(names, str) else "|".join(names)})
    rule = SameTerm.model_validate({"table": str(tmp_path / "terms.csv"), **case["rule"]})

    rule.check_files(case["truth"])
    check_verdict(rule, case)
