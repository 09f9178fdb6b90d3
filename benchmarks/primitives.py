"""How many rows of the tables of cases `Quantity` and `Choice` get wrong, and how many the plain primitives do.

    python benchmarks/primitives.py

The tables are those of the tests: pairs of a value and a truth with the verdict that an expert gives. A row is also
wrong if a primitive refuses its truth, or raises.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from karenina_template.templates import Choice, ExactMatch, NumberWithUnit, NumericTolerance, Primitive, Undecided
from karenina_units.quantity import Quantity

ROOT = Path(__file__).parents[1]
TABLES = {
    "quantities": ROOT / "plugins/units/tests/cases",
    "choices": ROOT / "plugins/template/tests/cases/choice",
}
Make = Callable[[dict[str, Any]], Primitive]
RULES: dict[str, dict[str, Make]] = {
    "quantities": {
        "Quantity": lambda row: Quantity.model_validate(row["rule"]),
        "NumberWithUnit": lambda row: NumberWithUnit(unit=row["rule"].get("unit")),
        "NumericTolerance": lambda row: NumericTolerance(tolerance=row["rule"].get("relative", 0)),
        "ExactMatch": lambda _: ExactMatch(normalize=["lowercase", "strip", "collapse_whitespace"]),
    },
    "choices": {
        "Choice": lambda row: Choice.model_validate({"options": row["options"], **row["rule"]}),
        "ExactMatch": lambda _: ExactMatch(normalize=["lowercase", "strip", "remove_punctuation"]),
    },
}


def verdict_of(make: Make, row: dict[str, Any]) -> object:
    """Return the verdict on a row, or the name of an error."""
    try:
        primitive = make(row)
        primitive.check_expected(row["truth"])
        verdict = primitive.check_extracted(row["value"], row["truth"], row["response"])
    except ValueError as error:
        return type(error).__name__
    return "undecided" if isinstance(verdict, Undecided) else verdict


def main() -> None:
    """Print how many rows each primitive gets wrong."""
    for table, folder in TABLES.items():
        rows = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.open(encoding="utf-8")]
        print(f"{table}: {len(rows)} rows")
        for name, make in RULES[table].items():
            found = [(verdict_of(make, row), row["expected"]) for row in rows]
            wrong = sum(verdict != expected for verdict, expected in found)
            passed = sum(verdict is True and expected is not True for verdict, expected in found)
            failed = sum(verdict is False and expected is True for verdict, expected in found)
            print(f"  {name:17} {wrong:4} wrong: {passed} accepted that are not right, {failed} right ones refused")
        make = next(iter(RULES[table].values()))
        started = time.perf_counter()
        for _ in range(20):
            for row in rows:
                verdict_of(make, row)
        seconds = (time.perf_counter() - started) / (20 * len(rows))
        print(f"  10,000 comparisons take {10_000 * seconds:.1f} s")


if __name__ == "__main__":
    main()
