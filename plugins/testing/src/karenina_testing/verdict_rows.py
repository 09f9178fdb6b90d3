"""Tables of values with the verdict that a primitive must reach, one JSON object per line.

Each row has a `value`, the `response` it is from, the `truth`, the arguments of the primitive (`rule`), the `expected`
verdict (true, false or "undecided") and the reason (`why`). Rows with `or_undecided` may be undecided, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

    from karenina_testing.contracts.primitive import AnyPrimitive


def verdict_rows(folder: Path) -> list[ParameterSet]:
    """Return the rows in all `.jsonl` files of a folder, as parameters named by file and line. Raises
    `FileNotFoundError` if there are none.
    """
    rows = [
        pytest.param(json.loads(line), id=f"{file.stem}:{number}")
        for file in sorted(folder.glob("*.jsonl"))
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1)
    ]
    if not rows:
        raise FileNotFoundError(f"there are no rows in .jsonl files in {folder}")
    return rows


def check_verdict(rule: AnyPrimitive, row: dict[str, Any]) -> None:
    """Assert that the primitive accepts the row's ground truth and reaches the expected verdict."""
    rule.check_expected(row["truth"])
    verdict = rule.check_extracted(row["value"], row["truth"], row["response"])
    accepted = [row["expected"], *(["undecided"] if row.get("or_undecided") else [])]
    assert (verdict if isinstance(verdict, bool) else "undecided") in accepted, (row["why"], verdict)
