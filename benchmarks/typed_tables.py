"""How many correct answers to a table of sixty questions of all kinds are judged correct by a given judge.

    python benchmarks/typed_tables.py --judge local:qwen2.5-coder-1.5b

The table in `tests/support/typed_table.py` has numbers, numbers with units, dates, lists, yes or no, and names in a
single column. It is written as CSV and as Excel, and judged by `karenina run` without a YAML file. Each recorded
response states the correct answer in a sentence. With `--wrong`, each states the answer to the next question of the
same kind, so that none is correct.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from typed_table import ROWS, Row, say, write_csv, write_excel

from karenina import Benchmark, Outcome, VerificationResultSet


def next_of_kind(place: int) -> Row:
    """Return the next row of the same kind that has a different answer."""
    row = ROWS[place]
    others = [other for other in (*ROWS[place:], *ROWS[:place]) if other.kind == row.kind and other.cell != row.cell]
    return others[0]


def judge(path: Path, judge: str, *, wrong: bool) -> Counter[tuple[str, Outcome]]:
    """Run `karenina run` on the table at `path`, and return the counts of each outcome by kind of question."""
    said = [say(next_of_kind(place) if wrong else row) for place, row in enumerate(ROWS)]
    ids = Benchmark.load(path).ids
    recordings = path.with_suffix(".recordings.jsonl")
    lines = [json.dumps({"id": id, "response": text}) for id, text in zip(ids, said, strict=True)]
    recordings.write_text("\n".join(lines), "utf-8")
    command = [str(Path(sys.executable).with_name("karenina")), "run", str(path), "--recordings", str(recordings)]
    output = path.with_suffix(".results.jsonl")
    command += ["--judge", judge, "--output", str(output), "--no-journal", "--json"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if not output.is_file():
        raise SystemExit(f"karenina run ended with {done.returncode}")
    kinds = {id: row.kind for id, row in zip(ids, ROWS, strict=True)}
    return Counter((kinds[one.question_id], one.outcome) for one in VerificationResultSet.load(output))


def report(name: str, found: Counter[tuple[str, Outcome]]) -> None:
    """Print the outcomes for each kind of question, and for all questions."""
    outcomes = list(dict.fromkeys(outcome for _, outcome in found))
    print(f"{name:<20}" + "".join(f"{outcome.value:>16}" for outcome in outcomes))
    for kind in dict.fromkeys(row.kind for row in ROWS):
        print(f"  {kind:<18}" + "".join(f"{found[kind, outcome]:>16}" for outcome in outcomes))
    totals = {outcome: sum(count for (_, one), count in found.items() if one is outcome) for outcome in outcomes}
    print(f"  {'all':<18}" + "".join(f"{totals[outcome]:>16}" for outcome in outcomes))
    print(f"  correct: {totals.get(Outcome.CORRECT, 0)} of {len(ROWS)}")


def main() -> None:
    """Parse the arguments, judge the tables, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", default="local:qwen2.5-coder-1.5b", help="the judge, as for `karenina run`")
    parser.add_argument("--format", choices=("csv", "xlsx"), help="judge only one of the two files")
    parser.add_argument("--wrong", action="store_true", help="judge wrong answers of the same kinds")
    arguments = parser.parse_args()
    writers = {"csv": write_csv, "xlsx": write_excel}
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (arguments.format,) if arguments.format else tuple(writers):
            path = writers[suffix](Path(folder) / f"questions.{suffix}")
            report(suffix, judge(path, arguments.judge, wrong=arguments.wrong))


if __name__ == "__main__":
    main()
