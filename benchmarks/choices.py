"""Which declaration of multiple-choice questions gives more right verdicts with a small judge: `Choice`, or a letter?

    python benchmarks/choices.py --judge local:qwen2.5-coder-0.5b

Forty recorded answers to ten questions name an option by its letter, its text, both, or in a sentence that also names
another option; half of them are wrong. A table with the options is judged as it is, so that the judge copies the option
and `Choice` compares it, and with the declaration of earlier versions, where the judge chooses a letter itself.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from karenina import Benchmark, Outcome, VerificationResultSet

QUESTIONS = [
    ("What is the capital of Peru?", ["Quito", "Lima", "Bogotá", "Santiago"], "B"),
    ("Which planet is the largest?", ["Saturn", "Neptune", "Jupiter", "Earth"], "C"),
    ("Which drug reverses an overdose of morphine?", ["flumazenil", "naloxone", "atropine", "vitamin K"], "B"),
    ("Which organ makes insulin?", ["liver", "spleen", "kidney", "pancreas"], "D"),
    ("Who wrote Hamlet?", ["Marlowe", "Shakespeare", "Jonson", "Milton"], "B"),
    ("Which gas is most of the air?", ["nitrogen", "oxygen", "argon", "carbon dioxide"], "A"),
    ("Which vitamin prevents scurvy?", ["vitamin A", "vitamin B12", "vitamin C", "vitamin D"], "C"),
    ("What is the boiling point of water at sea level?", ["90 °C", "100 °C", "110 °C", "120 °C"], "B"),
    ("Which particle has no charge?", ["electron", "proton", "positron", "neutron"], "D"),
    ("In which year did the first person walk on the Moon?", ["1965", "1967", "1969", "1971"], "C"),
]
OLD = "The letter of the option that the response gives as its answer"


def answers(options: list[str], right: str) -> list[tuple[str, bool]]:
    """Return four answers to a question, each with whether it is right."""
    place = ord(right) - ord("A")
    wrong = [number for number in range(len(options)) if number != place]
    first, second = wrong[0], wrong[1]
    letters = [chr(ord("A") + number) for number in range(len(options))]
    return [
        (f"The answer is {right}.", True),
        (
            f"One might think of {options[first]}, but that is not correct. It is {options[place]}, without a doubt.",
            True,
        ),
        (f"**{letters[first]}. {options[first]}**", False),
        (f"It is not {options[place]}, as is often said, but {options[second]} ({letters[second]}).", False),
    ]


def judge(folder: Path, name: str, benchmark: Benchmark, said: dict[str, str], model: str) -> dict[str, Outcome]:
    """Return the outcome of each question."""
    benchmark.save(folder / f"{name}.yaml")
    recordings, output = folder / f"{name}.answers.jsonl", folder / f"{name}.results.jsonl"
    recordings.write_text("\n".join(json.dumps({"id": id, "response": text}) for id, text in said.items()), "utf-8")
    command = [str(Path(sys.executable).with_name("karenina")), "run", f"{name}.yaml", "--recordings", recordings.name]
    command += ["--judge", model, "--output", output.name, "--no-journal", "--json"]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False)
    return {one.question_id: one.outcome for one in VerificationResultSet.load(output)}


def main() -> None:
    """Judge the answers in both ways, and print how many verdicts are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", default="local:qwen2.5-coder-0.5b", help="the judge, as for `karenina run`")
    model = parser.parse_args().judge
    rows = [(*one, *answer) for one in QUESTIONS for answer in answers(one[1], one[2])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "table.csv").open("w", encoding="utf-8", newline="") as opened:
            table = csv.writer(opened)
            table.writerow(["id", "question", "A", "B", "C", "D", "answer"])
            for number, (question, options, right, _, _) in enumerate(rows):
                table.writerow([f"q{number}", question, *options, right])
        new, old = Benchmark.load(folder / "table.csv"), Benchmark.create("old")
        for question, (_, _, right, _, _) in zip(list(new), rows, strict=True):
            field = f"VerifiedField(description={OLD!r}, ground_truth={right!r}, verify_with=LiteralMatch())"
            source = f"class Answer(BaseAnswer):\n    answer: Literal['A', 'B', 'C', 'D'] = {field}\n"
            old.add_question(question.question, question.raw_answer, source, question_id=question.id)
        said = {f"q{number}": row[3] for number, row in enumerate(rows)}
        for name, benchmark in (("Choice", new), ("letter", old)):
            outcomes = judge(folder, name, benchmark, said, model)
            right = [
                outcomes.get(f"q{n}") is (Outcome.CORRECT if row[4] else Outcome.WRONG) for n, row in enumerate(rows)
            ]
            kinds = [sum(right[kind::4]) for kind in range(4)]
            other = sum(one not in (Outcome.CORRECT, Outcome.WRONG) for one in outcomes.values())
            print(f"{name:7} {sum(right)} of {len(rows)} right (by kind of answer {kinds}), {other} not judged")


if __name__ == "__main__":
    main()
