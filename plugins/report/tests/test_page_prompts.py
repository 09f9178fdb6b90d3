"""The prompts of the report page, computed again from the benchmark and the journal."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_runs import CommandResult, run_karenina, write_benchmark
from journal_runs import ScriptedRuns

from karenina_core.models.ports import LLMReply, Usage
from karenina_engine.cost.ledger import sum_counts
from karenina_engine.cost.price_source import to_dollars
from karenina_engine.journal.view import JournalView
from karenina_report.commands import commands

MODELS = ("-a", "scripted:m", "-j", "scripted:j", "--set", "evaluation_mode=rubric_only")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def karenina(runs: ScriptedRuns, *arguments: str | Path) -> CommandResult:
    plugins = runs.plugins()
    plugins.register(commands)
    done = run_karenina(*arguments, plugins=plugins)
    assert done.code == 0, done.err
    return done


def head_of_page() -> dict[str, Any]:
    """Return the data of the page without its items."""
    match = re.search(r'id="karenina-head">([^<]*)<', Path("report.html").read_text("utf-8"))
    assert match is not None
    head: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(match[1])))
    return head


def calls_of_page() -> list[dict[str, Any]]:
    """Return the calls of all items of the page."""
    return [call for calls in calls_of_items() for call in calls]


def calls_of_items() -> list[list[dict[str, Any]]]:
    """Return the calls of each item of the page."""
    text = Path("report.html").read_text("utf-8")
    encoded = re.findall(r'<script type="text/plain" id="karenina-chunk-\d+">([^<]*)</script>', text)
    chunks = [json.loads(gzip.decompress(base64.b64decode(block))) for block in encoded]
    return [item["calls"] for chunk in chunks for item in chunk]


def test_prompts_are_those_that_were_sent() -> None:
    runs = ScriptedRuns()
    benchmark = write_benchmark(Path(), "a", "b")
    karenina(runs, "run", benchmark, *MODELS, "-o", "r.results.jsonl")
    sent = sorted(runs.calls)

    karenina(runs, "report", "r.results.jsonl", "-o", "report.html", "--benchmark", benchmark)

    calls = calls_of_page()
    assert sorted(f"{call['task']} {call['messages'][-1]['text']}" for call in calls) == sent
    assert {call["messages"][-1]["role"] for call in calls} == {"user"}
    judging = [call for call in calls if call["task"] == "counting"]
    assert all('"words"' in call["request"] for call in judging)
    assert sorted(runs.calls) == sent  # the report makes no call


def test_an_item_has_the_calls_of_its_own_model_alone() -> None:
    runs = ScriptedRuns()
    benchmark = write_benchmark(Path(), "a", "b")
    karenina(runs, "run", benchmark, *MODELS, "-a", "talkative:n", "-o", "r.results.jsonl")
    karenina(runs, "report", "r.results.jsonl", "-o", "report.html")

    items = calls_of_items()
    assert [[call["stage"] for call in calls] for calls in items] == [["Say", "Count"]] * 4
    assert [calls[0]["model"] for calls in items] == ["m", "n"] * 2
    assert all(one[1]["reply"] != other[1]["reply"] for one, other in zip(items[::2], items[1::2], strict=True))


def test_items_with_the_same_answer_share_the_call_of_the_judge() -> None:
    runs = ScriptedRuns(answers=lambda _text: "the same")
    karenina(runs, "run", write_benchmark(Path(), "a"), *MODELS, "-a", "scripted:k", "-o", "r.results.jsonl")
    karenina(runs, "report", "r.results.jsonl", "-o", "report.html")

    assert len(runs.calls) == 3
    assert [[call["stage"] for call in calls] for calls in calls_of_items()] == [["Say", "Count"]] * 2


def test_an_item_costs_what_its_calls_cost_at_the_prices_of_the_run() -> None:
    runs = ScriptedRuns()
    benchmark = write_benchmark(Path(), "a", "b")
    prices = '{"m": {"input": 1000, "output": 0}, "j": {"input": 0, "output": 1000}}'
    karenina(runs, "run", benchmark, *MODELS, "--set", f"prices={prices}", "-o", "r.results.jsonl")

    karenina(runs, "report", "r.results.jsonl", "-o", "report.html")

    costs = head_of_page()["index"]["cost"]
    by_item = [
        sum(call["input_tokens" if call["model"] == "m" else "output_tokens"] for call in item) / 1000
        for item in calls_of_items()
    ]
    assert costs == pytest.approx(by_item)
    assert all(costs)


def test_items_of_models_that_reason_and_cache_cost_what_the_run_spent() -> None:
    used = Usage(1000, 700, cached_tokens=900, reasoning_tokens=600, calls=1)
    runs = ScriptedRuns(answers=lambda text: LLMReply(f"an answer to {text}", used))
    prices = '{"m": {"input": 8, "cached": 1, "output": 2, "reasoning": 40}, "j": {"input": 1, "output": 1}}'
    karenina(runs, "run", write_benchmark(Path(), "a", "b"), *MODELS, "--set", f"prices={prices}", "-o", "r.jsonl")
    with JournalView(Path("r.journal")) as view:
        spent = sum_counts(line.spent for line in view.spent())

    karenina(runs, "report", "r.jsonl", "-o", "report.html")

    assert (spent.cached_tokens, spent.reasoning_tokens) == (1800, 1200)
    assert sum(head_of_page()["index"]["cost"]) == pytest.approx(float(to_dollars(spent.cost)))


def test_a_changed_question_has_no_prompt() -> None:
    runs = ScriptedRuns()
    benchmark = write_benchmark(Path(), "a", "b")
    karenina(runs, "run", benchmark, *MODELS, "-o", "r.results.jsonl")
    benchmark.write_text(benchmark.read_text("utf-8").replace("What is b?", "Who is b?"), "utf-8")

    karenina(runs, "report", "r.results.jsonl", "-o", "report.html", "--benchmark", benchmark)

    shown = [call.get("messages", [{}])[-1].get("text") for call in calls_of_page()]
    assert shown == ["What is a?", "How many words? an answer to What is a?", None, None]


def test_without_the_benchmark_prompts_are_left_out() -> None:
    runs = ScriptedRuns()
    karenina(runs, "run", write_benchmark(Path(), "a"), *MODELS, "-o", "r.results.jsonl")

    karenina(runs, "report", "r.results.jsonl", "-o", "report.html")

    assert all("messages" not in call for call in calls_of_page())
