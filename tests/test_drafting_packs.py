"""`karenina draft` offers the primitives of installed packs, and their drafts pass its checks."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_runs import run_karenina
from servers import recording_server

from karenina_benchmark import Benchmark
from karenina_core.plugins import Plugins

QUESTIONS = [
    json.loads(line)
    for line in (Path(__file__).parent / "support" / "questions_to_draft.jsonl").read_text("utf-8").splitlines()
]
OFFERED = ("Choice", "MathEqual", "NumberWithUnit", "Quantity", "SameFormula", "SameMolecule")


def write_draft(body: dict[str, Any]) -> str:
    """Return the draft for the question in a request, with its primitive in the table."""
    asked = re.search(r"^Question: (.*)$", body["messages"][1]["content"], re.MULTILINE)
    assert asked is not None
    row = next(row for row in QUESTIONS if row["question"] == asked[1])
    truth = row["answer"].split(", ") if row["primitive"] == "SetContainment" else [row["answer"]]
    if row["primitive"] == "BooleanMatch":
        truth = [str(row["answer"] == "yes").lower()]
    field = {"name": "value", "description": "What the response gives, as it is written", "ground_truth": truth}
    return json.dumps({"fields": [field | {key: row[key] for key in row if key not in ("question", "answer")}]})


def first_of_each(most: int) -> list[dict[str, str]]:
    """Return the first questions of each primitive."""
    primitives = sorted({row["primitive"] for row in QUESTIONS})
    return [row for name in primitives for row in [one for one in QUESTIONS if one["primitive"] == name][:most]]


@pytest.mark.parametrize("most", [2, pytest.param(len(QUESTIONS), marks=pytest.mark.release)])
def test_drafts_with_the_primitives_of_packs_pass_their_checks(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = first_of_each(most)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    with Path("table.csv").open("w", encoding="utf-8", newline="") as opened:
        csv.writer(opened).writerows([["question", "answer"], *([row["question"], row["answer"]] for row in rows)])
    asked: list[str] = []

    def reply(body: dict[str, Any]) -> str:
        asked.append(body["messages"][1]["content"])
        return write_draft(body)

    with recording_server(reply) as server:
        model = ("--model", f"openai:m@{server.url}", "--json", "--quiet")
        done = run_karenina("draft", "table.csv", *model, plugins=Plugins.discover())

    assert done.code == 0, done.err
    assert [one["reason"] for one in done.json["drafts"] if not one["passed"]] == []
    assert [name for name in OFFERED if f"- {name}: " not in asked[0]] == []
    report = Benchmark.check_file("table.draft.yaml")
    assert (report.questions, report.findings) == (len(rows), ())
