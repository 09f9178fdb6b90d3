"""Tables of questions are compared by the kinds of their answers, without a YAML file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typed_table import ROWS, SPELLINGS, WRONG, say, write_csv, write_excel

from karenina import Benchmark, Outcome, VerificationConfig
from karenina_testing.server import Request, ScriptedServer, Side

WRITERS = {"csv": write_csv, "xlsx": write_excel}


def outcomes(path: Path, values: dict[int, Any]) -> dict[int, Outcome]:
    """Return the outcome of each row for which a judge has a value."""
    benchmark = Benchmark.load(path)
    chosen = list(values)
    judged = {f"{row:02}": json.dumps({"answer": value}) for row, value in values.items()}
    with ScriptedServer(Side("It is said in part 1 of the response."), Side(items=judged)) as server:
        model = {"interface": "openai", "model_name": "m", "endpoint_base_url": f"{server.url}/v1"}
        model["endpoint_api_key"] = "none"
        config = VerificationConfig(answering_models=[{"id": "a", **model}], parsing_models=[{"id": "j", **model}])
        ids = [benchmark.ids[row] for row in chosen]
        results = {one.question_id: one for one in benchmark.run_verification(config, question_ids=ids)}
    return {row: results[id].outcome for row, id in zip(chosen, ids, strict=True)}


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("spelling", range(len(SPELLINGS)), ids=SPELLINGS)
def test_sixty_right_answers_of_sixty_are_right(suffix: str, spelling: int, tmp_path: Path) -> None:
    path = WRITERS[suffix](tmp_path / f"questions.{suffix}")
    assert len(ROWS) == 60
    found = outcomes(path, {place: row.said[spelling] for place, row in enumerate(ROWS)})
    assert {ROWS[place].question: outcome for place, outcome in found.items() if outcome is not Outcome.CORRECT} == {}


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("kind", WRONG)
def test_wrong_answers_of_each_kind_are_wrong(suffix: str, kind: str, tmp_path: Path) -> None:
    path = WRITERS[suffix](tmp_path / f"questions.{suffix}")
    rows = [place for place, row in enumerate(ROWS) if row.kind == kind]
    for value in WRONG[kind]:
        values = {place: not ROWS[place].said[1] if value == "wrong" else value for place in rows}
        counts = Counter(outcomes(path, values).values())
        if value == "not known":  # for a quantity, it is the judge's mistake: the response does not say so
            counts[Outcome.WRONG] += counts.pop(Outcome.UNDECIDED, 0)
        assert counts == {Outcome.WRONG: len(rows)}, value


@pytest.mark.parametrize(("wrong", "right"), [([], 60), (["--wrong"], 0)], ids=["right", "wrong"])
def test_the_benchmark_counts_right_answers_with_any_judge(wrong: list[str], right: int) -> None:
    by_text = {say(row): row.said[0] for row in ROWS}

    def fill(request: Request) -> str:
        text = "\n".join(text for _, text in request.texts)
        said = next(value for response, value in by_text.items() if f"\n{response}\n" in text)
        return json.dumps({"answer": said})

    script = Path(__file__).parents[1] / "benchmarks" / "typed_tables.py"
    with ScriptedServer(judge=Side(fill), is_judge=lambda _: True) as server:
        command = [sys.executable, str(script), "--format", "csv", "--judge", f"openai:j@{server.url}/v1", *wrong]
        done = subprocess.run(command, env={**os.environ, "OPENAI_API_KEY": "none"}, capture_output=True, text=True)
    assert f"correct: {right} of 60" in done.stdout, done.stdout + done.stderr
