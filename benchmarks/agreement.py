"""How well Karenina's verdicts agree with human labels, on recorded answers.

    python benchmarks/agreement.py evouna             all rows; templates that search the answer, no judge
    python benchmarks/agreement.py nq301 --rows 120   a local judge extracts, a program compares with the gold list

The rows come from `evouna.jsonl` and `nq301_openqa_eval.jsonl` in the folder of recorded data (`--data`). They are
processed by `karenina run` in the same way as a user's data: a benchmark file, a file of recorded answers, a result
file. The accuracy and Cohen's kappa against the human labels are printed next to those of plain string matching on the
same rows. Rows that were not judged are counted, but not included in either figure.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from karenina import Benchmark, VerificationResultSet
from karenina_template.templates.normalize import normalize

FILES = {"evouna": "evouna.jsonl", "nq301": "nq301_openqa_eval.jsonl"}
STOP_WORDS = frozenset(["a", "an", "and", "at", "by", "for", "in", "of", "on", "the", "to", "with"])
SEED = 301

ON_RESPONSE = """
class Answer(BaseAnswer):
    right: bool = VerifiedField(
        description="The response names the answer",
        ground_truth=True,
        verify_with=TraceRegex(pattern={pattern!r}, flags=["IGNORECASE", "DOTALL"]),
    )
"""
ON_EXTRACTED = """
class Answer(BaseAnswer):
    answer: str = VerifiedField(
        description="The answer to the question that the response gives, copied from the response",
        ground_truth={gold!r},
        verify_with=RegexMatch(pattern={pattern!r}, flags=["IGNORECASE", "DOTALL"]),
    )
"""


def gold_pattern(gold: Iterable[str]) -> str:
    """Return a pattern that matches texts stating one of the correct answers.

    A text matches in two cases. Either it contains every distinctive word of a correct answer, in any order ("in
    Landover, Maryland" for "Landover"), or it consists only of words from one correct answer, at least one of which is
    distinctive ("Maryland" for "Landover, Maryland").
    """
    alternatives = []
    for answer in gold:
        words = re.findall(r"\w+", answer)
        telling = [word for word in words if word.casefold() not in STOP_WORDS] or words
        if telling:
            alternatives.append("".join(rf"(?=.*(?<!\w){re.escape(word)}(?!\w))" for word in telling))
            one = "|".join(map(re.escape, dict.fromkeys(telling)))
            any_of = "|".join(map(re.escape, dict.fromkeys([*telling, *sorted(STOP_WORDS)])))
            alternatives.append(rf"(?=.*(?<!\w)(?:{one})(?!\w))\A\W*(?:(?:{any_of})(?:\W+|\Z))+\Z")
    return "|".join(dict.fromkeys(alternatives)) or r"(?!)"


def agreement(verdicts: Sequence[bool], labels: Sequence[bool]) -> tuple[float, float]:
    """Return the accuracy and Cohen's kappa (J. Cohen, 1960), which is the agreement beyond that expected by chance."""
    count = len(labels)
    observed = sum(one == other for one, other in zip(verdicts, labels, strict=True)) / count
    yes, truly = sum(verdicts) / count, sum(labels) / count
    chance = yes * truly + (1 - yes) * (1 - truly)
    return observed, (observed - chance) / (1 - chance) if chance < 1 else 1.0


def exact(response: str, gold: str) -> bool:
    """Return whether the response is the correct answer and nothing else."""
    return _plain(response) == _plain(gold)


def contains(response: str, gold: str) -> bool:
    """Return whether the response contains the correct answer, ignoring case."""
    return gold.casefold() in response.casefold()


def says_gold(response: str, gold: Iterable[str]) -> bool:
    """Return the verdict of applying the template's comparison to the whole response, without a judge."""
    return re.search(gold_pattern(gold), response, re.IGNORECASE | re.DOTALL) is not None


def _plain(text: str) -> str:
    """Return text in lower case, without punctuation and redundant spaces."""
    return normalize(text, ["lowercase", "remove_punctuation", "strip", "collapse_whitespace"])


def sample(rows: list[dict[str, Any]], size: int | None) -> list[dict[str, Any]]:
    """Return `size` rows (all if None), which are always the same.

    If possible, half of them are labelled correct and half of them wrong.
    """
    if size is None or size >= len(rows):
        return rows
    draw = random.Random(SEED)
    right = [row for row in rows if row["human_label"]]
    wrong = [row for row in rows if not row["human_label"]]
    half = min(size // 2, len(wrong))
    return sorted(draw.sample(right, size - half) + draw.sample(wrong, half), key=lambda row: str(row["id"]))


def evaluate(rows: list[dict[str, Any]], template: str, judge: str | None, folder: Path) -> VerificationResultSet:
    """Write the benchmark and the recorded answers in `rows` to `folder`, and return the results of `karenina run`."""
    benchmark = Benchmark.create(name="recorded answers")
    for row in rows:
        gold = row["gold"]
        source = template.format(pattern=gold_pattern(gold), gold=" / ".join(gold))
        benchmark.add_question(row["question"], " / ".join(gold), source, question_id=row["id"])
    benchmark.save(folder / "benchmark.jsonld")
    recordings = folder / "recordings.jsonl"
    recordings.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = [str(Path(sys.executable).with_name("karenina")), "run", str(folder / "benchmark.jsonld")]
    command += ["--recordings", str(recordings), "--output", str(folder / "results.jsonl"), "--json"]
    if judge is not None:
        command += ["--judge", f"local:{judge}", "--set", "request_timeout=900"]  # minutes on a busy machine
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return VerificationResultSet.load(folder / "results.jsonl")


def report(rows: list[dict[str, Any]], results: VerificationResultSet, seconds: float) -> None:
    """Print a line for each method, with the accuracy and kappa against the human labels and the number of rows."""
    by_id = {result.question_id: result for result in results}
    if len(results) != len(rows) or set(by_id) != {row["id"] for row in rows}:
        raise SystemExit(f"there are {len(rows)} rows, but {len(results)} results")
    print(f"{len(rows)} rows, {len(results)} results, {seconds:.1f} s")
    print(f"{'method':<32}{'judged':>8}{'accuracy':>10}{'kappa':>8}")

    def line(name: str, verdict: Callable[[dict[str, Any]], bool | None]) -> None:
        """Print the figures for one method. Raises `SystemExit` if it judged no row."""
        pairs = [(found, bool(row["human_label"])) for row in rows if (found := verdict(row)) is not None]
        if not pairs:
            errors = [result.metadata.error for result in results if result.metadata.error]
            raise SystemExit(f"{name}: no row was judged; the first error: {errors[0] if errors else 'none'}")
        accuracy, kappa = agreement([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        print(f"{name:<32}{len(pairs):>8}{accuracy:>10.3f}{kappa:>8.3f}")

    line("exact match", lambda row: any(exact(row["response"], gold) for gold in row["gold"]))
    line("contains the gold answer", lambda row: any(contains(row["response"], gold) for gold in row["gold"]))
    line("the comparison, no judge", lambda row: says_gold(row["response"], row["gold"]))
    line("karenina", lambda row: by_id[row["id"]].template.verify_result)
    for name in ("bem_judge", "davinci003_judge", "gpt4_judge"):
        if all(row.get(name) is not None for row in rows):
            line(f"recorded: {name.removesuffix('_judge')}", lambda row, name=name: bool(row[name]))  # type: ignore[misc]
    outcomes = results.summary().outcomes
    print("outcomes: " + ", ".join(f"{name} {count}" for name, count in outcomes.items()))


def main() -> None:
    """Parse the arguments, run the evaluation, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=sorted(FILES))
    parser.add_argument("--rows", type=int, help="the size of a balanced sample (default: all rows)")
    parser.add_argument(
        "--judge", default="qwen2.5-coder-0.5b", help="the local model that extracts the answers (nq301)"
    )
    parser.add_argument("--keep", type=Path, help="a folder in which the benchmark and result files are kept")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    arguments = parser.parse_args()
    file = arguments.data / FILES[arguments.set]
    if not file.is_file():
        raise SystemExit(f"{file} does not exist; give the folder of the recorded data with --data")
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    rows = sample(rows, arguments.rows)
    extracted = arguments.set == "nq301"
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        results = evaluate(
            rows,
            ON_EXTRACTED if extracted else ON_RESPONSE,
            arguments.judge if extracted else None,
            folder,
        )
        report(rows, results, time.monotonic() - began)


if __name__ == "__main__":
    main()
