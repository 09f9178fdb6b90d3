"""How many rows of the tables of cases the primitives of a field get wrong, and how many the plain ones do.

    python benchmarks/primitives.py [--peers FOLDER]

The tables are those of the tests: pairs of a value and a truth with the verdict that an expert gives, and with
`or_undecided` if a primitive may leave the row undecided as well. A row is also wrong if a primitive refuses its truth,
or raises. With `--peers`, math-verify, latex2sympy2-extended with sympy, lm-evaluation-harness and pint are installed
into environments in FOLDER, and compare the expressions and quantities. They have no *undecided*: of these rows, those
count as wrong in which they return a verdict. Then `MathEqual` compares the right answers of three public sets with
themselves.
"""

from __future__ import annotations

import argparse
import atexit
import csv
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from karenina_chem.same_formula import SameFormula
from karenina_chem.same_molecule import SameMolecule
from karenina_math.math_equal import MathEqual
from karenina_template.templates import (
    Choice,
    ContainsAny,
    ExactMatch,
    NumberWithUnit,
    NumericTolerance,
    Primitive,
    Undecided,
)
from karenina_terms.same_term import SameTerm
from karenina_units.quantity import Quantity

ROOT = Path(__file__).parents[1]
TABLES = {
    "quantities": ROOT / "plugins/units/tests/cases",
    "choices": ROOT / "plugins/template/tests/cases/choice",
    "expressions": ROOT / "plugins/math/tests/cases",
    "structures": ROOT / "plugins/chem/tests/cases",
    "formulas": ROOT / "plugins/chem/tests/cases",
    "terms": ROOT / "plugins/terms/tests/cases",
}
KINDS = {"structures": "SameMolecule", "formulas": "SameFormula"}
"""The primitive of the rows of a table that shares its files with another one."""
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
    "expressions": {
        "MathEqual": lambda row: MathEqual.model_validate(row["rule"]),
        "NumericTolerance": lambda row: NumericTolerance(tolerance=row["rule"].get("tolerance", 0)),
        "ExactMatch": lambda _: ExactMatch(normalize=["lowercase", "strip", "collapse_whitespace"]),
    },
    "structures": {
        "SameMolecule": lambda row: SameMolecule.model_validate(row["rule"]),
        "ExactMatch": lambda _: ExactMatch(normalize=["strip"]),
    },
    "formulas": {
        "SameFormula": lambda row: SameFormula.model_validate(row["rule"]),
        "ExactMatch": lambda _: ExactMatch(normalize=["strip"]),
    },
    "terms": {
        "SameTerm": lambda row: SameTerm.model_validate({"table": write_terms(row["table"]), **row["rule"]}),
        "ExactMatch": lambda _: ExactMatch(normalize=["lowercase", "strip", "collapse_whitespace"]),
        "ContainsAny": lambda row: ContainsAny(substrings=names_in_table(row)),
    },
}
PEERS = {
    "math-verify": (
        ["math-verify==0.9.0"],
        ["math-verify, value", "math-verify, response", "latex2sympy + sympy"],
    ),
    "lm-eval": (
        ["math-verify==0.9.0"],
        ["lm-eval minerva_math", "lm-eval hendrycks_math"],
    ),
    "pint": (["pint==0.25.3"], ["pint"]),
}
"""Requirements and ways of comparison of each environment."""
ALONE = {"lm-eval": ["lm-eval==0.4.13", "antlr4-python3-runtime==4.11.1"]}
"""Packages to install without their dependencies. The tasks of lm-evaluation-harness need this version of antlr4."""
SETS = ["champ-dataset==1.0.0", "mathgenerator==1.5.0", "numpy", "sympy"]
HOSTILE = [
    *("9^{9^{9^{9}}}", "10^{10^{10}}!", "(" * 50_000 + ")" * 50_000, "x^" * 900 + "x", "2" + "!" * 100),
    *(r"\binom{10^9}{10^8}", "1e999999999", r"\sqrt" * 300 + "2", "(x+1)" * 390, "-" * 1_900 + "1"),
]


@cache
def folder_of_terms() -> Path:
    """Return the folder for the tables of terms, which is deleted at the end."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Path(folder.name)


def write_terms(terms: Sequence[dict[str, Any]]) -> str:
    """Write the table of a row as a CSV file, and return its path."""
    text = json.dumps(terms)
    file = folder_of_terms() / f"{hashlib.sha256(text.encode()).hexdigest()}.csv"
    if not file.exists():
        with file.open("w", encoding="utf-8", newline="") as target:
            writer = csv.DictWriter(target, ["id", "name", "synonyms"])
            writer.writeheader()
            writer.writerows({**term, "synonyms": "|".join(synonyms_of(term))} for term in terms)
    return str(file)


def synonyms_of(term: dict[str, Any]) -> list[str]:
    """Return the synonyms of a term."""
    names = term["synonyms"]
    return names.split("|") if isinstance(names, str) else names


def names_in_table(row: dict[str, Any]) -> list[str]:
    """Return the truth of a row and, if the table has it as a main name or identifier, its synonyms."""
    same = [term for term in row["table"] if row["truth"] in (term["id"], term["name"])]
    return [row["truth"], *(name for term in same for name in (term["name"], *synonyms_of(term)) if name)]


def verdict_of(make: Make, row: dict[str, Any]) -> object:
    """Return the verdict on a row, or the name of an error."""
    try:
        primitive = make(row)
        primitive.check_expected(row["truth"])
        primitive.check_files(row["truth"])
        verdict = primitive.check_extracted(row["value"], row["truth"], row["response"])
    except ValueError as error:
        return type(error).__name__
    return "undecided" if isinstance(verdict, Undecided) else verdict


def print_score(name: str, verdicts: Sequence[object], rows: Sequence[dict[str, Any]]) -> None:
    """Print how many verdicts are wrong."""
    found = [
        (verdict, "undecided" if verdict == "undecided" and row.get("or_undecided") else row["expected"])
        for verdict, row in zip(verdicts, rows, strict=True)
    ]
    wrong = sum(verdict != expected for verdict, expected in found)
    passed = sum(verdict is True and expected is not True for verdict, expected in found)
    failed = sum(verdict is False and expected is True for verdict, expected in found)
    print(f"  {name:23} {wrong:4} wrong: {passed} accepted that are not right, {failed} right ones refused", flush=True)


def environment(folder: Path, requirements: Sequence[str], alone: Sequence[str] = ()) -> Path:
    """Return the interpreter of an environment with these packages, and with those that come `alone`."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet"]
        for packages in ([*requirements], ["--no-deps", *alone]):
            if packages[-1] != "--no-deps":
                subprocess.run([*install, *packages], check=True)
    return python


def ask_peer(python: Path, way: str, rows: Sequence[dict[str, Any]]) -> list[tuple[bool | None, float]]:
    """Return the verdicts of another program, and the seconds that they took."""
    command = [python, Path(__file__).with_name("comparison_peers.py"), way]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run(
        command, input=lines, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def compare_with_peers(folder: Path, table: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print what other programs get wrong, and how long they take for hostile expressions."""
    hostile = [{"truth": "7", "value": text, "response": text} for text in HOSTILE]
    for name, (requirements, ways) in PEERS.items():
        python = environment(folder / name, requirements, ALONE.get(name, ()))
        for way in ways:
            if (way == "pint") > (table == "quantities"):
                continue
            answers = ask_peer(python, way, rows)
            print_score(way, ["undecided" if verdict is None else verdict for verdict, _ in answers], rows)
            print(f"  {'':28} {sum(spent for _, spent in answers):.1f} s", flush=True)
            if table == "expressions":
                slow = [spent for _, spent in ask_peer(python, way, hostile)]
                print(f"  {'':28} hostile ones {sum(slow):.0f} s, at most {max(slow):.0f} s each", flush=True)
    if table != "expressions":
        return
    rule, started, most = MathEqual(), time.perf_counter(), 0.0
    for text in HOSTILE:
        before = time.perf_counter()
        rule.check(text, "7")
        most = max(most, time.perf_counter() - before)
    print(f"  MathEqual: hostile ones {time.perf_counter() - started:.0f} s, at most {most:.0f} s each")


def compare_gold(folder: Path) -> None:
    """Print how many right answers of public sets are equal to themselves."""
    python = environment(folder / "sets", SETS)
    source = folder / "source"
    if not source.exists():
        pip = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", source]
        subprocess.run([*pip, "math-verify==0.9.0"], check=True)
        archive = next(source.glob("*.tar.gz"))
        subprocess.run(["tar", "xzf", archive, "-C", source], check=True)
    command = [python, Path(__file__).with_name("gold_answers.py"), source]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    for name, (texts, left_out) in json.loads(done.stdout).items():
        rows = [{"truth": text, "value": text, "response": text, "rule": {}} for text in texts]
        make = RULES["expressions"]["MathEqual"]
        others = [row["truth"] for row in rows if verdict_of(make, row) is not True]
        count = f"{len(texts) - len(others)} of {len(texts)}"
        print(f"{name}: {count} right answers equal themselves; left out: {left_out}")
        for text in others:
            print(f"  not: {text!r}")


def main() -> None:
    """Print how many rows each primitive gets wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="the folder for environments of other programs")
    peers = parser.parse_args().peers
    for table, folder in TABLES.items():
        rows = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.open(encoding="utf-8")]
        rows = [row for row in rows if row.get("primitive") == KINDS.get(table)]
        print(f"{table}: {len(rows)} rows")
        for name, make in RULES[table].items():
            print_score(name, [verdict_of(make, row) for row in rows], rows)
        made = next(iter(RULES[table].values()))
        started = time.perf_counter()
        for number in range(10_000):
            row = rows[number % len(rows)]
            if table == "expressions":  # equal pairs are compared once
                row = {"truth": f"{number}x/8", "value": rf"0.125 \cdot {number}x", "response": "", "rule": {}}
            verdict_of(made, row)
        print(f"  10,000 comparisons take {time.perf_counter() - started:.1f} s")
        if peers is not None and table in ("expressions", "quantities"):
            compare_with_peers(peers.resolve(), table, rows)
        if peers is not None and table == "expressions":
            compare_gold(peers.resolve())


if __name__ == "__main__":
    main()
