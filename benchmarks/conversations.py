"""The CPU time of conversations compared with as many single questions, and the tokens that a local model evaluates.

    python benchmarks/conversations.py           conversations of ten and thirty turns, on a fake server
    python benchmarks/conversations.py --local   the tokens of each turn with the small local models, too

A turn is a call with all messages before it. "One judge call" has a field for the last turn, "a field per turn" a field
and a judge call for each turn, and the single questions have an answer and a judge call each. All calls go through the
`openai` adapter with a journal to the same server, which answers at once. Each measurement is a process of its own,
they take turns, and medians are printed. The CPU time is that of the run, after one conversation that imports all
modules.

Prompts grow by appending only, so a server evaluates a turn's prompt from the end of the turn before. `--local` prints
what llama.cpp reports: prompt tokens, and how many of them were evaluated.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import fake_server
from measuring import Target, cpu_seconds, machine, print_targets, question

LENGTHS: Final = (10, 30)
MOST: Final = {10: 2.0}
"""The greatest ratio to single questions, by the number of turns."""
FORMS: Final = ("single questions", "one judge call", "a field per turn")
SAID: Final = (
    "Which planet is the largest?",
    "Are you sure?",
    "How far is it from the Sun?",
    "Does it have moons?",
    "Name one of them.",
    "Which planet is the smallest?",
)


def write_benchmark(file: Path, form: str, turns: int, count: int) -> None:
    """Write `count` conversations of this many turns, or as many single questions as they have turns."""
    field = {"description": "The code word that the response states.", "verify_with": "ExactMatch"}
    questions: list[dict[str, Any]] = []
    for first in range(0, turns * count, turns):
        numbers = range(first, first + turns)
        if form == FORMS[0]:
            questions += [
                {
                    "id": f"q{number}",
                    "question": question(number),
                    "answer": {"word": {**field, "ground_truth": fake_server.code(number)}},
                }
                for number in numbers
            ]
            continue
        turn_fields = {
            f"word_{turn}": {**field, "turn": turn, "ground_truth": fake_server.code(number)}
            for turn, number in enumerate(numbers, 1)
        }
        last = {"word": {**field, "ground_truth": fake_server.code(numbers[-1])}}
        questions.append(
            {
                "id": f"q{first}",
                "question": question(first),
                "turns": [question(number) for number in numbers[1:]],
                "answer": last if form == FORMS[1] else turn_fields,
            }
        )
    content = {"karenina": 1, "name": "Code words", "questions": questions}
    file.write_text(json.dumps(content), "utf-8")  # JSON is YAML


def run(file: Path, url: str) -> None:
    """Run a benchmark, and print its CPU seconds and outcomes as JSON."""
    from karenina import Benchmark, VerificationConfig
    from karenina_engine.run.execution import execute_session, run_blocking
    from karenina_engine.run.prepare import open_run
    from karenina_engine.run.request import RunRequest

    model = {"interface": "openai", "model_name": "fake", "endpoint_base_url": url}
    config = VerificationConfig(
        answering_models=[{"id": "answering", **model}],
        parsing_models=[{"id": "judge", **model}],
        concurrency_start=64,
        concurrency_ceiling=64,
    )
    questions = Benchmark.load(file)

    def measured(name: str, ids: list[str] | None) -> tuple[float, dict[str, int]]:
        """Return the CPU seconds of a run, and its outcomes."""
        began = cpu_seconds()
        output = file.with_name(f"{name}.jsonl")
        request = RunRequest(
            questions, config, question_ids=ids, output=output, journal=file.with_name(f"{name}.journal")
        )
        with open_run(request) as session:
            totals = run_blocking(lambda: execute_session(session, output=output))
        return cpu_seconds() - began, dict(totals.summary().outcomes)

    measured("first", [next(iter(questions.ids))])
    used, outcomes = measured("all", None)
    print("RESULT " + json.dumps({"cpu": used, "outcomes": outcomes}))


def measure(turns: int, count: int, times: int) -> list[Target]:
    """Measure all forms in turns, print the medians, and return the targets."""
    seen: dict[str, list[float]] = {form: [] for form in FORMS}
    with fake_server.running(0.0) as server, tempfile.TemporaryDirectory() as folder:
        for time in range(times):
            for form in FORMS:
                place = Path(folder) / f"{time}-{FORMS.index(form)}"
                place.mkdir()
                write_benchmark(place / "words.yaml", form, turns, count)
                command = [sys.executable, __file__, "--worker", str(place / "words.yaml"), "--url", server.url]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found = json.loads(done.stdout.partition("RESULT ")[2])
                assert set(found["outcomes"]) == {"correct"}, found
                seen[form].append(1000 * found["cpu"] / count)
    single = statistics.median(seen[FORMS[0]])
    print(f"\n{turns} turns, {count} conversations: CPU time of a conversation, and of {turns} single questions")
    for form, figures in seen.items():
        median = statistics.median(figures)
        print(f"  {form:18} {median:7.1f} ms  {median / single:5.2f}  ({min(figures):.1f} to {max(figures):.1f})")
    if turns not in MOST:
        return []
    return [Target(f"{turns} turns, {form}", statistics.median(seen[form]) / single, MOST[turns]) for form in FORMS[1:]]


def measure_local(name: str) -> list[Target]:
    """Print the prompt tokens of each turn with a local model, and how many were evaluated. Return the targets."""
    from karenina import Benchmark, VerificationConfig
    from karenina_engine.journal.view import JournalView
    from karenina_engine.run.execution import execute_session, run_blocking
    from karenina_engine.run.prepare import open_run
    from karenina_engine.run.request import RunRequest

    model = {"id": name, "interface": "local", "model_name": name, "temperature": 0.0, "max_tokens": 60}
    field = {"from": "conversation.turns", "ground_truth": len(SAID)}
    with tempfile.TemporaryDirectory() as folder:
        file, journal = Path(folder) / "planets.yaml", Path(folder) / "planets.journal"
        asked = {"id": "planets", "question": SAID[0], "turns": SAID[1:], "answer": {"turns": field}}
        file.write_text(json.dumps({"karenina": 1, "name": "Planets", "questions": [asked]}), "utf-8")
        config = VerificationConfig(answering_models=[{**model, "extra": {"slots": 1, "context": 2048}}])
        output = file.with_suffix(".jsonl")
        with open_run(RunRequest(Benchmark.load(file), config, journal=journal, output=output)) as session:
            run_blocking(lambda: execute_session(session, output=output))
        with JournalView(journal) as view:
            rows = [{**row, "cached_tokens": json.loads(str(row["reply"]))["usage"][2]} for row in view.calls()]
    print(f"\n{name}: prompt tokens of each turn, and those evaluated")
    evaluated = [row["input_tokens"] - row["cached_tokens"] for row in rows]
    for turn, (row, new) in enumerate(zip(rows, evaluated, strict=True), 1):
        print(f"  turn {turn}: {row['input_tokens']:5} tokens, {new:4} evaluated, {row['output_tokens']:3} written")
    return [Target(f"{name}: evaluated share", sum(evaluated) / sum(row["input_tokens"] for row in rows), 0.5)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=60, help="how many are held in each measurement")
    parser.add_argument("--times", type=int, default=5, help="how often each is measured")
    parser.add_argument("--local", action="store_true", help="measure the small local models, too")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        run(given.worker, given.url)
        sys.exit()
    print(f"Conversations: {machine()}")
    targets = [target for turns in LENGTHS for target in measure(turns, given.conversations, given.times)]
    if given.local:
        targets += [target for name in ("smollm2-135m", "qwen2.5-coder-0.5b") for target in measure_local(name)]
    print_targets(targets)
    sys.exit(any(target.met is False for target in targets))
