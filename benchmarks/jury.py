"""A jury of judges compared with human labels: its accuracy and that of each judge, agreement, and escalation.

    python benchmarks/jury.py --rows 200
    python benchmarks/jury.py --rows 20 -j local:smollm2-135m -j local:qwen2.5-coder-0.5b -j local:qwen2.5-coder-1.5b

The rows are those of `nq301_openqa_eval.jsonl` in the folder of recorded data (`--data`), as in `agreement.py`: a judge
extracts the answer, and a program compares it with the list of correct answers. The last judge is the stronger one.
Each of the other judges, and the jury, is compared with the human labels on the same rows. With `--all`, the stronger
judge reads all rows, not only those on which the other judges disagree. Rows that were not judged are counted, but not
included in any figure. With `--keep`, a second run with the same folder makes only the missing calls.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agreement import ON_EXTRACTED, agreement, gold_pattern, sample

from karenina import Benchmark, VerificationResultSet
from karenina_benchmark.config.model_specs import parse_models
from karenina_jury.jury_command import jury_sections
from karenina_jury.jury_result import describe_juries, read_record
from karenina_terminal.text_layout import format_sections

FILE: Final = "nq301_openqa_eval.jsonl"
SHORT: Final = "Copy as few words as possible: the answer itself, without a sentence around it."
JUDGES: Final = (
    "local:qwen2.5-coder-0.5b",
    json.dumps({"id": "short", "interface": "local", "model_name": "qwen2.5-coder-0.5b", "system_prompt": SHORT}),
    "local:qwen2.5-coder-1.5b",
)
"""Two small judges, which differ in their instructions, and a larger model."""

Rows = list[dict[str, Any]]
Verdicts = Mapping[str, bool]


def make_benchmark(rows: Rows) -> Benchmark:
    """Return a benchmark with one question for each row."""
    benchmark = Benchmark.create(name="recorded answers")
    for row in rows:
        gold = " / ".join(row["gold"])
        source = ON_EXTRACTED.format(pattern=gold_pattern(row["gold"]), gold=gold)
        benchmark.add_question(row["question"], gold, source, question_id=row["id"])
    return benchmark


def run(
    rows: list[dict[str, Any]], judges: list[dict[str, Any]], folder: Path, **settings: Any
) -> VerificationResultSet:
    """Run these judges as a jury and return the results."""
    answers = {row["id"]: row["response"] for row in rows}
    recorded = {"id": "recorded", "interface": "manual", "model_name": "recorded", "manual_traces": answers}
    config = {"answering_models": [recorded], "parsing_models": judges, **settings}
    return make_benchmark(rows).run_verification(config, journal=folder / "jury.journal", trust="all")


def verdicts_of(results: VerificationResultSet) -> Verdicts:
    """Return the verdicts from a run by question ID."""
    return {one.question_id: bool(one.template.verify_result) for one in results if one.outcome.has_verdict}


def votes_of(results: VerificationResultSet) -> dict[str, dict[str, bool]]:
    """Return the verdicts of each judge in a jury by question ID."""
    found: dict[str, dict[str, bool]] = {}
    for result in results:
        record = read_record(result)
        for vote in record.judges if record is not None else ():
            if vote.verdict is not None:
                found.setdefault(vote.judge, {})[result.question_id] = vote.verdict
    return found


def report(rows: Rows, verdicts: Mapping[str, Verdicts]) -> None:
    """Print the accuracy and kappa of each judge against the human labels, and the number of rows."""
    print(f"{'judge':<48}{'judged':>8}{'accuracy':>10}{'kappa':>8}")
    for name, found in verdicts.items():
        pairs = [(found[row["id"]], bool(row["human_label"])) for row in rows if row["id"] in found]
        if not pairs:
            print(f"{name:<48}{0:>8}")
            continue
        accuracy, kappa = agreement([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        print(f"{name:<48}{len(pairs):>8}{accuracy:>10.3f}{kappa:>8.3f}")


def main() -> None:
    """Parse the arguments, run the jury, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200, help="the size of a balanced sample")
    parser.add_argument(
        "-j", "--judge", action="append", help="a judge, as for `karenina run`; the last one is the stronger one"
    )
    parser.add_argument("--vote", choices=["field", "verdict"], default="field")
    parser.add_argument("--all", action="store_true", help="let the stronger judge read all rows, after the jury")
    parser.add_argument("--keep", type=Path, help="a folder in which the journal is kept")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    arguments = parser.parse_args()
    file = arguments.data / FILE
    if not file.is_file():
        raise SystemExit(f"{file} does not exist; give the folder of the recorded data with --data")
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    rows = sample(rows, arguments.rows)
    judges = parse_models(arguments.judge or JUDGES)
    strong = judges[-1]["id"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        results = run(rows, judges, folder, jury={"vote": arguments.vote, "escalate_to": strong})
        print(f"{len(rows)} rows, {time.monotonic() - began:.0f} s")
        print("\n".join(format_sections(jury_sections(describe_juries(results)), 120)), end="\n\n")
        votes = votes_of(results)
        verdicts: dict[str, Verdicts] = {"jury": verdicts_of(results)}
        verdicts |= {judge: found for judge, found in votes.items() if judge != strong}
        verdicts[f"{strong}, on the rows escalated"] = votes.get(strong, {})
        if arguments.all:
            verdicts[f"{strong}, on all rows"] = verdicts_of(run(rows, judges[-1:], folder))
        report(rows, verdicts)


if __name__ == "__main__":
    main()
