"""How much the judge matters: verdicts on answers that mention a correct and a wrong value.

    python benchmarks/built_answers.py --part report --judge qwen2.5-coder-0.5b --rows 200
    python benchmarks/built_answers.py --part choose --judge qwen2.5-coder-0.5b --rows 60 --instructions prompt.txt
    python benchmarks/built_answers.py --list

The answers are built from recorded questions and values (`answer_builder.py`), so the correct verdict on each is known.
For each kind of answer, the table compares the share of correct verdicts from a plain comparison with the whole text
and from Karenina with each judge: the judge extracts a value, and a program compares it by the same rule. The 95%
intervals account for there being several answers to one question. Items that are not judged count as wrong here, and
are also counted separately.

Prompts are chosen on one half of the questions (`--part choose`) and reported on the other half. `--instructions` tests
different instructions, `--plain` tests the prompt for large judges, and `--once` tests the prompt for small judges
without the second look at masked values. `--recorded` judges rows of `nq301_openqa_eval.jsonl`, which have human
labels, instead. With `--keep`, a run that was stopped is continued, and the verdicts are written as JSON lines.
`--against FILE` prints the paired difference from such verdicts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from agreement import ON_EXTRACTED, gold_pattern, sample, says_gold
from answer_builder import BuiltAnswer, build

import karenina_template.parse_template as parse_stage
from karenina import Benchmark, VerificationResult
from karenina_engine.results.rates import rate
from karenina_report.estimators.paired import mean_difference

RECORDED: Final = "nq301_openqa_eval.jsonl"
FILES: Final = (RECORDED, "evouna.jsonl")

Verdicts = dict[str, bool | None]
"""The verdicts on answers, keyed by the answers' ids. A verdict is None if the answer was not judged."""


def read(file: Path) -> list[dict[str, Any]]:
    """Return the rows in a file of recorded data. Raises `SystemExit` if the file does not exist."""
    if not file.is_file():
        raise SystemExit(f"{file} does not exist; give the folder of the recorded data with --data")
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]


def recorded_answers(rows: Iterable[dict[str, Any]]) -> list[BuiltAnswer]:
    """Return recorded answers with human labels, in the same form as built answers."""
    return [
        BuiltAnswer(
            id=row["id"],
            question=row["question"],
            kind="recorded",
            part="choose",
            text=row["response"],
            right=bool(row["human_label"]),
            template=ON_EXTRACTED.format(pattern=gold_pattern(row["gold"]), gold=" / ".join(row["gold"])),
            plain=says_gold(row["response"], row["gold"]),
        )
        for row in rows
    ]


def draw(answers: Sequence[BuiltAnswer], size: int | None) -> list[BuiltAnswer]:
    """Return `size` of the answers (all if None), taken from each kind in turn.

    A larger draw contains each smaller draw.
    """
    position: Counter[str] = Counter()
    ranked = []
    for answer in sorted(answers, key=lambda one: sha256(one.id.encode()).digest()):
        ranked.append((position[answer.kind], answer.kind, answer))
        position[answer.kind] += 1
    ranked.sort(key=lambda entry: entry[:2])
    return [entry[2] for entry in ranked[:size]]


def judge_answers(answers: Sequence[BuiltAnswer], judge: str, folder: Path, **settings: Any) -> Verdicts:
    """Run Karenina and return the verdicts. Each verdict is written to `verdicts.jsonl` in `folder` as it arrives."""
    benchmark = Benchmark.create(name="built answers")
    for answer in answers:
        benchmark.add_question(answer.question, "known", answer.template, question_id=answer.id)
    texts = {answer.id: answer.text for answer in answers}
    recorded = {"id": "recorded", "interface": "manual", "model_name": "recorded", "manual_traces": texts}
    local = {"id": judge, "interface": "local", "model_name": judge, "request_timeout": 900}
    config = {"answering_models": [recorded], "parsing_models": [local], **settings}
    found: Verdicts = {}
    with (folder / "verdicts.jsonl").open("w", encoding="utf-8") as file:

        def note(result: VerificationResult) -> None:
            """Record a verdict and write it to the file immediately."""
            verdict = bool(result.template.verify_result) if result.outcome.has_verdict else None
            value = (result.template.parsed_llm_response or {}).get("answer")
            found[result.question_id] = verdict
            parsing = result.extensions.get("karenina-template", {}).get("parsing", {})
            row = {"id": result.question_id, "verdict": verdict, "extracted": value, **parsing}
            print(json.dumps(row, default=str), file=file, flush=True)

        benchmark.run_verification(config, journal=folder / "run.journal", trust="all", on_result=note)
    return found


def table(answers: Sequence[BuiltAnswer], columns: dict[str, dict[str, bool]]) -> list[str]:
    """Return the lines of a Markdown table with the share of correct verdicts in each column, by kind of answer."""
    lines = [f"| kind | answers | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for kind in [*dict.fromkeys(answer.kind for answer in answers), "all"]:
        chosen = [answer for answer in answers if kind in ("all", answer.kind)]
        cells = []
        for verdicts in columns.values():
            found = rate((answer.question, verdicts[answer.id] == answer.right) for answer in chosen)
            cells.append(f"{found.value or 0:.0%} ({found.low or 0:.0%}-{found.high or 0:.0%})")
        lines.append(f"| {kind} | {len(chosen)} | {' | '.join(cells)} |")
    return lines


def difference(answers: Sequence[BuiltAnswer], verdicts: dict[str, bool], file: Path) -> str:
    """Return a line with the paired difference between the shares of correct verdicts here and in `file`."""
    before = {row["id"]: row["verdict"] for row in read(file)}
    both = [answer for answer in answers if answer.id in before]
    differences = [
        float(verdicts[answer.id] == answer.right) - float(bool(before[answer.id]) == answer.right) for answer in both
    ]
    found = mean_difference(differences, [answer.question for answer in both])
    interval = f"{found.low:+.1%} to {found.high:+.1%}" if found.low is not None and found.high is not None else "none"
    return f"difference from {file} on {len(both)} answers: {found.mean:+.1%} (95% interval {interval})"


def main() -> None:
    """Parse the arguments, run the judges, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["choose", "report"], default="report")
    parser.add_argument("--rows", type=int, help="the number of answers, the same for each kind (default: all)")
    parser.add_argument("-j", "--judge", action="append", default=[], help="a local model; may be repeated")
    parser.add_argument(
        "--plain", action="store_true", help="use the prompt for large judges, without a list of rejected values"
    )
    parser.add_argument("--once", action="store_true", help="no second look at the response with its values masked")
    parser.add_argument("--instructions", type=Path, help="a file with other instructions for the judge")
    parser.add_argument(
        "--recorded", action="store_true", help="judge recorded answers with human labels, not built ones"
    )
    parser.add_argument("--list", action="store_true", help="print the answers as JSON lines, and call no judge")
    parser.add_argument("--backwards", action="store_true", help="judge the answers in the opposite order")
    parser.add_argument("--keep", type=Path, help="a folder in which journals and verdicts are kept")
    parser.add_argument("--against", type=Path, help="verdicts of an earlier run, to print a paired difference")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    arguments = parser.parse_args()
    if arguments.recorded:
        answers = recorded_answers(sample(read(arguments.data / RECORDED), arguments.rows))
    else:
        rows = [row for name in FILES for row in read(arguments.data / name)]
        answers = draw([one for one in build(rows) if one.part == arguments.part], arguments.rows)
    if arguments.backwards:
        answers = answers[::-1]
    if arguments.list:
        for answer in answers:
            print(json.dumps({name: getattr(answer, name) for name in ("id", "kind", "question", "text", "right")}))
        return
    if arguments.instructions is not None:
        text = arguments.instructions.read_text("utf-8").strip()
        parse_stage.PARSING = replace(parse_stage.PARSING, instructions=text)  # type: ignore[misc]  # a trial in this process only
        parse_stage.LISTING = replace(parse_stage.LISTING, instructions=text)  # type: ignore[misc]
        others = parse_stage.ParseTemplate.prompts[2:]
        parse_stage.ParseTemplate.prompts = (parse_stage.PARSING, parse_stage.LISTING, *others)
    columns = {"whole text": {answer.id: answer.plain for answer in answers}}
    for judge in arguments.judge:
        with tempfile.TemporaryDirectory() as temporary:
            folder = (arguments.keep or Path(temporary)) / judge
            folder.mkdir(parents=True, exist_ok=True)
            settings = {"list_rejected": not arguments.plain, "check_values": not (arguments.plain or arguments.once)}
            found = judge_answers(answers, judge, folder, **settings)
            columns[judge] = {name: bool(verdict) for name, verdict in found.items()}
            failed = sum(verdict is None for verdict in found.values())
            if failed:
                print(f"{judge}: {failed} answers were not judged")
        if arguments.against is not None:
            print(difference(answers, columns[judge], arguments.against))
    print("\n".join(table(answers, columns)))


if __name__ == "__main__":
    main()
