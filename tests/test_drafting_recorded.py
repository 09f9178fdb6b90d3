"""`karenina draft` over HTTP, for 40 recorded questions and answers, with a model that a script replaces."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from command_runs import CommandResult, run_karenina
from servers import recording_server

from karenina_benchmark import Benchmark
from karenina_core.plugins import Plugins

DATA = Path(__file__).parents[2] / "shared" / "data"
SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "drafting.py"))
PAIRS = 40
REFERENCE = re.compile(r"<answer ([0-9a-f]{16})>\n(.*?)\n</answer \1>", re.DOTALL)
BOOLEAN = {"yes", "no", "true", "false"}

pytestmark = pytest.mark.skipif(not (DATA / "evouna.jsonl").is_file(), reason=f"the recorded data {DATA} is not there")


def copying_model(body: dict[str, Any]) -> str:
    """Return a draft with one field that copies the answer; the first draft for each question shows it."""
    request = body["messages"][1]["content"]
    found = REFERENCE.search(request)
    assert found is not None
    first = len(body["messages"]) == 2
    field = {
        "name": "value",
        "description": f"What the response names, such as {found[2]}" if first else "What the response names",
        "primitive": "BooleanMatch" if found[2].casefold() in BOOLEAN else "ExactMatch",
        "ground_truth": [found[2]],
    }
    return json.dumps({"fields": [field]})


def wrong_model(body: dict[str, Any]) -> str:
    """Return a draft whose truth is not that of the question."""
    assert body["messages"]
    field = {"name": "value", "description": "What it names", "primitive": "ExactMatch", "ground_truth": ["Atlantis"]}
    return json.dumps({"fields": [field]})


def draft(url: str, *arguments: str) -> CommandResult:
    """Draft the templates of the recorded pairs with the model of a server."""
    SCRIPT["write_table"](Path("pairs.csv"), SCRIPT["draw_pairs"](DATA, PAIRS))
    return run_karenina(
        "draft", "pairs.csv", "--model", f"openai:m@{url}", "--json", "--quiet", *arguments, plugins=Plugins.discover()
    )


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")


def test_drafts_that_copy_the_answer_pass_after_a_correction() -> None:
    with recording_server(copying_model) as server:
        done = draft(server.url)

    assert done.code == 0, done.err
    drafts = done.json["drafts"]
    left = [one["reason"] for one in drafts if not one["passed"]]
    assert len(drafts) == PAIRS
    assert left == []
    assert sum(one["tries"] == 2 for one in drafts) >= 0.8 * PAIRS  # short answers and yes or no do not show the truth
    report = Benchmark.check_file("pairs.draft.yaml")
    assert (report.questions, report.findings) == (PAIRS, ())


def test_no_draft_with_a_wrong_truth_passes() -> None:
    with recording_server(wrong_model) as server:
        done = draft(server.url, "--tries", "1")

    assert done.code == 0
    assert [one["id"] for one in done.json["drafts"] if one["passed"]] == []
    assert all("is not in the answer" in one["reason"] for one in done.json["drafts"])
