"""A run with hostile expressions, quantities, structures, formulas and terms among good ones, without a model.

    python benchmarks/hostile_values.py [--rounds N]

The answers are recorded, and a field of each template is the whole answer (`from: answer.text`). Of 120 items, 60 are
hostile: towers of powers, 100,000 brackets, huge exponents, a megabyte of text, control characters. The run has to end,
leave each hostile value undecided with a reason, and count the good ones as right. The program prints how many are, how
long the run takes, and the memory that the command and its children take together at most. It exits with 1 if anything
else happens, or the memory is above 300 MB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

MEGABYTE = 1_000_000
MOST_MEGABYTES = 300
"""The memory that the command and its children may take together."""
CONTROL = "".join(map(chr, range(1, 32))) + "\x7f\x85\u2028\u202e\ufeff\ufffe"
GENES = "id,name,synonyms\nHGNC:11998,TP53,p53|LFS1\nHGNC:6407,KRAS,K-Ras\nHGNC:3430,ERBB2,HER2|NEU\n"
RULES: Mapping[str, Mapping[str, object]] = {
    "MathEqual": {"ground_truth": r"\frac{1}{2}", "verify_with": "MathEqual"},
    "Quantity": {"ground_truth": "5 mg", "verify_with": "Quantity"},
    "SameMolecule": {
        "ground_truth": "CC(=O)Oc1ccccc1C(=O)O",
        "verify_with": {"type": "SameMolecule", "tautomers": "same", "salts": "ignored"},
    },
    "SameFormula": {"ground_truth": "SO4^2-", "verify_with": "SameFormula"},
    "SameTerm": {"ground_truth": "TP53", "verify_with": {"type": "SameTerm", "table": "genes.csv"}},
}
"""A field for each primitive."""
GOOD = {
    "MathEqual": ["0.5", r"50\%", "2/4", r"\boxed{\frac12}", "1 - 1/2", r"\sin 30^\circ", "x = 0.5", "0.50", "½",
                  r"\frac{\sqrt{4}}{4}", "2^{-1}", "1:2"],
    "Quantity": ["5 mg", "0.005 g", "5,000 µg", "5.0 mg", r"5\,\text{mg}", "5e-3 g", "5 milligrams", "5 mg (0.005 g)",
                 "5 mg, not 10 mg", "**5 mg**", "5000 mcg", "0.000005 kg"],
    "SameMolecule": ["CC(=O)Oc1ccccc1C(=O)O", "OC(=O)c1ccccc1OC(C)=O", "OC(=O)C1=CC=CC=C1OC(C)=O",
                     "BSYNRYMUTXBXSQ-UHFFFAOYSA-N", "`O=C(C)Oc1ccccc1C(=O)O`", "aspirin: CC(=O)Oc1ccccc1C(O)=O",
                     "CC(=O)Oc1ccccc1C(=O)[O-].[Na+]", "O=C(O)c1ccccc1OC(=O)C", "SMILES: CC(=O)Oc1ccccc1C(=O)O",
                     "c1ccc(C(=O)O)c(OC(C)=O)c1", "C1=CC(=C(C=C1)C(O)=O)OC(=O)C", "CC(=O)OC1=C(C=CC=C1)C(=O)O"],
    "SameFormula": ["SO4^2-", "SO₄²⁻", "SO42-", r"\ce{SO4^2-}", "[SO4]2-", "O4S^2-", "SO_4^{2-}", "SO4(2-)",
                    "SO<sub>4</sub><sup>2-</sup>", "**SO4^2-**", "SO4^{-2}", "SO4 2-"],
    "SameTerm": ["TP53", "p53", "HGNC:11998", "tp53", "*TP53*", "the TP53 gene", "TP53 (p53)", "LFS1", "TP-53", "P53",
                 "TP53/p53", "HGNC 11998"],
}  # fmt: skip
HOSTILE = {
    "MathEqual": [
        "9^{9^{9^{9}}}", "10^{10^{10}}!", "(" * 100_000 + ")" * 100_000, "x^" * 900 + "x", "1e999999999",
        r"\binom{10^9}{10^8}", r"\sqrt" * 300 + "2", "1" * MEGABYTE, r"\frac{" * 300, CONTROL,
        r"\sum_{k=1}^{1000} \sum_{j=1}^{1000} \sum_{i=1}^{1000} k^{j^{i}}", "2" + "!" * 100,
    ],
    "Quantity": [
        "5e999999999 mg", "10^10^10^10 mg", "(" * 100_000, "5 " + "m/" * 50_000, "5 mg " * 20_000,
        "5 " + "kilo" * 25_000 + "gram", "5 mg ± " * 20_000, r"\frac{" * 20_000 + "5 mg", CONTROL,
        "5 m" + "²" * MEGABYTE, "1/" * 50_000 + "2 scoops", "5 m^999999999 flurbs",
    ],
    "SameMolecule": [
        "C" * MEGABYTE, "C(" * 100_000, "[" * 100_000 + "]" * 100_000, "C%99" * 700, "C1CC" * 100_000, CONTROL,
        "[Xx+999999999]", "[C]]" * 700, "C=" * 1_400 + "(", "InChI=1S/" + "C9" * 50_000, "c1" * 1_400,
        "C1" + "C(C1)(C1)" * 300,
    ],
    "SameFormula": [
        "(" * 100_000, "(H" * 200 + ")" * 200, "H" * MEGABYTE, "H2O" * 200 + "?", CONTROL, "^" * 100_000,
        "SO4^" + "+-" * 200, "\\ce{" * 20_000, "[" * 100_000 + "]" * 100_000, "·" * 100_000, "SO4^9x" * 200,
        "_" * 100_000,
    ],
    "SameTerm": [
        "(" * 100_000, "a" * 100_000, "/" * 100_000, CONTROL, "TP53" * 100_000, "TP53/" * 50_000, "\u0301" * MEGABYTE,
        "\u03b1" * 900, "*" * 100_000, "http://" * 100_000, "%s%n" * 200, "' OR 1=1; DROP TABLE names; --",
    ],
}  # fmt: skip


def items(rounds: int) -> Iterator[tuple[str, str, str]]:
    """Yield identifiers of items, their primitives and answers: one is good, and the next hostile."""
    for name in RULES:
        for number, (good, hostile) in enumerate(zip(GOOD[name], HOSTILE[name], strict=True)):
            for again in range(rounds):
                yield f"good-{name}-{number}-{again}", name, good
                yield f"hostile-{name}-{number}-{again}", name, hostile


def write_files(folder: Path, rounds: int) -> None:
    """Write the benchmark, its table of genes and the recorded answers."""
    questions, answers = [], []
    for key, name, text in items(rounds):
        field = {"description": "The answer", "from": "answer.text", **RULES[name]}
        questions.append({"id": key, "question": f"Question {key}", "answer": {"value": field}})
        answers.append({"id": key, "response": text})
    (folder / "genes.csv").write_text(GENES, "utf-8")
    benchmark = {"karenina": 1, "name": "Hostile values", "questions": questions}
    (folder / "values.yaml").write_text(json.dumps(benchmark), "utf-8")  # JSON is YAML
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in answers), "utf-8")


def tree_memory(root: int) -> int:
    """Return the kilobytes of memory of a process and its descendants (Linux only).

    Memory that they share, such as that of a library, counts once (the proportional set size).
    """
    waiting, total = [root], 0
    while waiting:
        pid = waiting.pop()
        try:
            sizes = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text("utf-8").split())
        except OSError:  # it has ended
            continue
        total += sum(int(line.split()[1]) for line in sizes.splitlines() if line.startswith("Pss:"))
    return total


def run(folder: Path) -> tuple[int, float, int]:
    """Return the exit status of the run, its seconds, and the most kilobytes of the command and its children."""
    command = [sys.executable, "-m", "karenina", "run", "values.yaml", "--recordings", "answers.jsonl"]
    started, most = time.perf_counter(), 0
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [*command, "-o", "results.jsonl"], cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
        while process.poll() is None:
            most = max(most, tree_memory(process.pid))
            time.sleep(0.02)
    return process.returncode, time.perf_counter() - started, most


def outcomes(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the identifier of each item, its outcome, and the reason if it is undecided."""
    for line in file.open(encoding="utf-8"):
        result = json.loads(line)
        if "metadata" in result:
            reason = (result.get("template") or {}).get("field_verification_error") or ""
            yield result["metadata"]["question_id"], result["outcome"], reason


def main() -> None:
    """Print what the run says about good and hostile values, its time and its memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="how often each value is answered")
    parser.add_argument("--reasons", action="store_true", help="print the reason of each undecided value")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, arguments.rounds)
        status, seconds, kilobytes = run(folder)
        if not (folder / "results.jsonl").exists():
            sys.exit((folder / "output.txt").read_text("utf-8", "replace")[-3_000:])
        found = list(outcomes(folder / "results.jsonl"))
    for kind in ("good", "hostile"):
        counts = Counter(outcome for key, outcome, _ in found if key.startswith(kind))
        print(f"{kind}: {', '.join(f'{number} {outcome}' for outcome, number in counts.most_common())}")
    expected = {"good": "correct", "hostile": "undecided"}
    others = [key for key, outcome, _ in found if outcome != expected[key.partition("-")[0]]]
    others += [key for key, outcome, reason in found if outcome == "undecided" and not reason]
    print(f"exit status {status}, {seconds:.1f} s, at most {kilobytes / 1024:.0f} MB of memory together")
    if arguments.reasons:
        for key, _, reason in found:
            print(f"  {key}: {reason[:150]!r}")
    if others or status or kilobytes > MOST_MEGABYTES * 1024 or len(found) != len(list(items(arguments.rounds))):
        sys.exit(f"not as expected: {others or 'the run'}")


if __name__ == "__main__":
    main()
