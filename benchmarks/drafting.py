"""The share of recorded questions and answers for which a model's template draft passes all checks.

    python benchmarks/drafting.py local:qwen2.5-coder-1.5b --pairs 10
    python benchmarks/drafting.py openai:gpt-5-mini --keep drafts

The pairs are drawn from four files of recorded data (`--data`): genomics (GeneTuring), NaturalQuestions and TriviaQA
(EVOUNA and NQ301), and biomedical questions answered by yes, no or maybe (PubMedQA, a tenth). The answer of a pair is
the first correct answer to its question. The pairs are processed by `karenina draft` in the same way as a user's table.
A draft that passes is consistent; whether it asks for what matters is for people to decide. With `--keep`, a second run
with the same folder makes only the missing calls.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).parents[2] / "shared" / "data"
SOURCES: Final = {"geneturing_genegpt": 3, "evouna": 3, "nq301_openqa_eval": 3, "pubmedqa_l": 1}
"""The files, each with the number of pairs out of ten that come from it."""
SEED: Final = 16


@dataclass(frozen=True)
class Pair:
    """A question with its answer, and the file it comes from."""

    source: str
    question: str
    answer: str


def draw_pairs(data: Path, count: int) -> list[Pair]:
    """Return `count` pairs, the same ones in each run. A smaller set of pairs is always the start of a larger set."""
    by_source = {}
    for source in SOURCES:
        lines = (data / f"{source}.jsonl").read_text("utf-8").split("\n")
        rows = [json.loads(line) for line in lines if line.strip()]
        answers = {row["question"]: row["gold"][0] for row in rows if row["gold"]}
        pairs = [Pair(source, question, answer) for question, answer in sorted(answers.items())]
        random.Random(SEED).shuffle(pairs)
        by_source[source] = iter(pairs)
    turns = [source for source, share in SOURCES.items() for _ in range(share)]
    return [next(by_source[turns[number % len(turns)]]) for number in range(count)]


def write_table(file: Path, pairs: Sequence[Pair]) -> None:
    """Write the pairs as a CSV table for `karenina draft`. The ID of a pair is its number."""
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["id", "question", "answer"])
        writer.writerows([f"p{number:03}", pair.question, pair.answer] for number, pair in enumerate(pairs, 1))


def run_draft(model: str, folder: Path, tries: int) -> list[dict[str, Any]]:
    """Run `karenina draft --json` and return its outcome for each pair. Earlier drafts in `folder` are deleted."""
    (folder / "pairs.draft.yaml").unlink(missing_ok=True)  # written anew from the journal
    command = ["draft", "pairs.csv", "--model", model, "--tries", str(tries), "--json"]
    program = str(Path(sys.executable).with_name("karenina"))
    done = subprocess.run([program, *command], cwd=folder, stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 4):
        raise SystemExit(f"karenina draft ended with {done.returncode}")
    found: list[dict[str, Any]] = json.loads(done.stdout)["drafts"]
    return found


def report(pairs: Sequence[Pair], drafts: Sequence[dict[str, Any]]) -> None:
    """Print the share of passing drafts for each file, and the most frequent reasons for the drafts that failed."""
    print(f"{'source':<22}{'pairs':>7}{'passed':>8}{'at once':>9}{'failed':>8}")
    named = list(zip(pairs, drafts, strict=True))
    for source in [*SOURCES, "all"]:
        of = [draft for pair, draft in named if source in (pair.source, "all")]
        passed = [draft for draft in of if draft["passed"]]
        at_once = sum(draft["tries"] == 1 for draft in passed)
        print(f"{source:<22}{len(of):>7}{len(passed):>8}{at_once:>9}{sum(draft['failed'] for draft in of):>8}")
    for reason, count in Counter(draft["reason"][:100] for draft in drafts if not draft["passed"]).most_common(10):
        print(f"{count:>4}  {reason}")


def main() -> None:
    """Parse the arguments, draft the templates, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="local:qwen2.5-coder-1.5b", help="as in `karenina draft`")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="a folder in which the journal and the drafts are kept")
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parser.parse_args()
    if not (arguments.data / "evouna.jsonl").is_file():
        raise SystemExit(f"{arguments.data} does not contain recorded data; give its folder with --data")
    pairs = draw_pairs(arguments.data, arguments.pairs)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write_table(folder / "pairs.csv", pairs)
        began = time.monotonic()
        drafts = run_draft(arguments.model, folder, arguments.tries)
        print(f"{arguments.model}: {len(pairs)} pairs, {time.monotonic() - began:.0f} s")
        report(pairs, drafts)


if __name__ == "__main__":
    main()
