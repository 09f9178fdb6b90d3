"""Costs in whole runs against a real server: the estimate before, the budget during and the ledger after a run."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from command_runs import run_karenina, write_benchmark
from journal_runs import ScriptedRuns
from servers import RecordingServer, recording_server
from typer.testing import CliRunner

from karenina import Benchmark
from karenina_cli.app import build_app
from karenina_core.data.rubrics import LLMRubricTrait, Rubric
from karenina_core.models.ports import LLMReply, Usage
from karenina_core.plugins import Plugins

QUESTIONS = 60
AT_ONCE = 4
PRICES = 'prices={"m": {"input": 1, "output": 4}, "j": {"input": 10, "output": 40}}'
FREE_ANSWERS = '{"m": {"input": 0, "output": 0}, "j": {"input": 10, "output": 40}}'
ANSWERED, JUDGED = (30, 200), (700, 100)
"""The tokens that the server counts of an answer and of a judge's reply."""
ANSWER = Decimal(30 * 1 + 200 * 4) / 10**6
REPLY = Decimal(700 * 10 + 100 * 40) / 10**6
TEMPLATE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="{}", verify_with=ExactMatch())
"""


def reply(body: dict[str, Any]) -> str:
    gene = re.findall(r"GENE\d+", json.dumps(body["messages"]))[-1]
    return json.dumps({"gene": gene}) if "response_format" in body else f"It is {gene}."


@contextmanager
def counting_server() -> Iterator[RecordingServer]:
    with recording_server(reply) as server:
        server.usage = lambda body: JUDGED if "response_format" in body else ANSWERED
        yield server


def asked(server: RecordingServer) -> list[str]:
    """Return the bodies of the requests to the server."""
    return [one.rpartition("\n")[2] for one in server.seen]


def genes(folder: Path) -> Path:
    benchmark = Benchmark.create("Genes")
    for number in range(QUESTIONS):
        template = TEMPLATE.format(f"GENE{number}")
        benchmark.add_question(f"Which gene is GENE{number}?", raw_answer=f"GENE{number}", answer_template=template)
    path = folder / "genes.jsonld"
    benchmark.save(path)
    return path


def karenina(*arguments: object) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(build_app(), [str(one) for one in (*arguments, "--json")])
    assert done.exit_code in (0, 3), done.output
    return done.exit_code, json.loads(done.stdout)


def run(server: RecordingServer, file: Path, *more: str) -> tuple[int, dict[str, Any]]:
    model = '[{{"id": "{0}", "interface": "openai", "model_name": "{0}", "endpoint_base_url": "{1}"}}]'
    return karenina(
        *("run", file, "--set", f"answering_models={model.format('m', server.url)}"),
        *("--set", f"parsing_models={model.format('j', server.url)}", "--set", PRICES),
        *("--set", f"max_concurrency={AT_ONCE}", *more),
    )


def cost(found: dict[str, Any]) -> Decimal:
    return Decimal(str(found["cost_usd"]))


def verdicts(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["question_id"], one["outcome"], one["template"]["raw_llm_response"]) for one in found["results"]]


def test_a_run_stops_at_its_budget_and_continues_when_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = genes(tmp_path)
    with counting_server() as quiet:
        _, whole = run(quiet, file, "-o", "whole.jsonl")
    with counting_server() as server:
        run(server, file, "--limit", "4")
        _, expected = run(server, file, "--dry-run")
        assert len(server.seen) == 8
        rest = Decimal(str(expected["estimate"]["cost_usd"][1]))
        assert expected["estimate"]["done"] == 4
        assert abs(rest - (QUESTIONS - 4) * (ANSWER + REPLY)) < Decimal("0.001")

        half = rest / 2
        code, stopped = run(server, file, "--budget", f"{half:f}")
        spent = cost(stopped["money"]["spent"]) + cost(stopped["money"]["earlier"])
        window = AT_ONCE * (ANSWER + REPLY)
        assert code == 3
        assert half - window <= spent <= half
        assert stopped["not_run"] == QUESTIONS - len(stopped["results"]) > 0

        code, raised = karenina("resume", "genes.journal", "--budget", f"{2 * rest:f}")
        assert (code, raised["not_run"]) == (0, 0)
        assert verdicts(raised) == verdicts(whole)
        assert len(asked(server)) == len(set(asked(server))) == 2 * QUESTIONS

    _, status = karenina("status", "genes.journal")
    assert cost(status["spent"]["spent"]) == cost(whole["money"]["spent"]) == QUESTIONS * (ANSWER + REPLY)
    models = {one["model"]: one for one in status["spent"]["by_model"]}
    assert (cost(models["m"]), cost(models["j"])) == (QUESTIONS * ANSWER, QUESTIONS * REPLY)
    assert [(one["judge"], one["calls"]) for one in status["spent"]["by_judge"]] == [("j", QUESTIONS)]


def test_an_estimate_has_as_many_cached_tokens_and_as_much_reasoning_as_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    used = Usage(1000, 700, cached_tokens=900, reasoning_tokens=600, calls=1)
    runs = ScriptedRuns(answers=lambda text: LLMReply(f"an answer to {text}", used))
    models = ("-a", "scripted:m", "-j", "scripted:j", "--set", "evaluation_mode=rubric_only")
    prices = 'prices={"m": {"input": 8, "cached": 1, "output": 2, "reasoning": 40}, "j": {"input": 1, "output": 1}}'
    command = ("run", write_benchmark(tmp_path, *"abcdef"), *models, "--set", prices, "-o", "r.jsonl", "--json")

    run_karenina(*command, "--limit", "4", plugins=runs.plugins())
    estimate = run_karenina(*command, "--dry-run", plugins=runs.plugins()).json["estimate"]
    (answers,) = [
        line for line in run_karenina(*command, plugins=runs.plugins()).json["money"]["lines"] if not line["judge"]
    ]

    (expected,) = [line for line in estimate["lines"] if line["model"] == "m"]
    assert answers["calls"] == 2
    assert answers["cost_usd"] == pytest.approx(2 * (100 * 8 + 900 * 1 + 100 * 2 + 600 * 40) / 1e6)
    assert expected["cost_usd"][1] == pytest.approx(answers["cost_usd"])


@pytest.mark.parametrize(
    ("price", "spent", "note"),
    [
        (', "web_searches": 10', 0.02444, "the 4 calls in the journal cost $0.0200 more than their tokens"),
        ("", 0.00334, "the cost of 1 of the 4 calls in the journal is unknown"),
    ],
)
def test_an_estimate_says_what_calls_in_the_journal_cost_beside_tokens(
    price: str, spent: float, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = Usage(1000, 50, calls=1)
    searched = Usage(1000, 50, calls=1, web_searches=2)
    runs = ScriptedRuns(answers=lambda text: LLMReply(f"an answer to {text}", searched if "q1" in text else plain))
    models = ("-a", "scripted:m", "--set", "evaluation_mode=rubric_only")
    prices = f'prices={{"m": {{"input": 1, "output": 2{price}}}, "j": {{"input": 1, "output": 1}}}}'
    file = str(write_benchmark(tmp_path, "q1", "q2", "q3", "q4", "q5"))
    command = ("run", file, *models, "-j", "scripted:j", "--set", prices)
    run_karenina(*command, "--limit", "4", plugins=runs.plugins())

    shown = " ".join(run_karenina(*command, "--dry-run", plugins=runs.plugins()).out.split())

    found = run_karenina(*command, "--dry-run", "--json", plugins=runs.plugins()).json["estimate"]
    assert f"Not counted: what m charges beside tokens in Say: {note}" in shown
    assert found["spent_earlier_usd"] == spent
    assert f"Earlier runs with this journal spent {'$0.0244' if price else 'at least $0.003340'}." in shown


def test_a_price_that_only_the_replies_state_is_not_called_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stated = Usage(1000, 50, calls=1, stated_cost=3_000_000)
    runs = ScriptedRuns(answers=lambda text: LLMReply(f"an answer to {text}", stated))
    command = ("run", write_benchmark(tmp_path, "q1", "q2"), "-a", "scripted:m", "-j", "scripted:j")
    prices = 'prices={"j": {"input": 1, "output": 1}}'

    shown = run_karenina(
        *command, "--set", "evaluation_mode=rubric_only", "--set", prices, "--quiet", plugins=runs.plugins()
    )

    assert "Price of m (scripted:m): what the provider states in each reply" in shown.out + shown.err
    assert "$0.006000" in shown.out + shown.err


def test_paid_traits_are_kept_when_the_budget_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    benchmark = Benchmark.create("Genes")
    traits = {"dear": "It is clear. " * 500, "clear": "It is clear.", "warm": "It is warm."}
    benchmark.global_rubric = Rubric.of(
        *(LLMRubricTrait(name=name, kind="boolean", description=text) for name, text in traits.items())
    )
    for number in range(12):
        benchmark.add_question(f"Which gene is GENE{number}?")
    benchmark.save(tmp_path / "genes.jsonld")

    async def slowly(body: dict[str, Any]) -> str:
        await asyncio.sleep(0.05)
        return '{"reasoning": "it is", "score": true}' if "response_format" in body else reply(body)

    with counting_server() as server:
        server.reply = slowly
        rubric_only = ("--set", "evaluation_mode=rubric_only", "--set", "rubric_evaluation_strategy=sequential")
        for part in range(1, 6):
            more = ("--budget", f"{part * 2 * (ANSWER + 3 * REPLY):f}") if part < 5 else ()
            code, found = run(server, tmp_path / "genes.jsonld", *rubric_only, *more)
            assert code == (3 if more else 0)
    assert [one["outcome"] for one in found["results"]] == ["scored"] * 12
    assert len(asked(server)) == len(set(asked(server))) == 12 * 4


def test_a_dry_run_calls_nothing_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file = genes(tmp_path)
    _, found = karenina("run", file, "-a", "openai:gpt-4.1-mini", "-j", "openai:of-our-own", "--dry-run")
    estimate = found["estimate"]
    lines = {line["stage"]: line for line in estimate["lines"]}

    assert estimate["calls"] == [2 * QUESTIONS] * 3
    assert lines["GenerateAnswer"]["cost_usd"][1] > 0
    assert lines["ParseTemplate"]["cost_usd"] is None
    assert not estimate["complete"]
    assert "genai-prices" in estimate["prices"]["lists"]
    assert [path.name for path in tmp_path.iterdir()] == ["genes.jsonld"]


@pytest.mark.parametrize(
    "url", ["http://", "https:///v1", "http://:8000/v1", "http://[::1/v1", "http://h:99999/v1", "HTTP://[::1/v1"]
)
def test_dry_runs_and_doctor_refuse_a_url_to_which_nothing_can_be_sent(tmp_path: Path, url: str) -> None:
    plugins = Plugins.discover()
    dry = run_karenina("run", genes(tmp_path), "-a", f"openai:m@{url}", "--dry-run", plugins=plugins)
    doctor = run_karenina("doctor", "-a", f"openai:m@{url}", plugins=plugins)

    assert (dry.code, doctor.code) == (2, 2)
    assert "answering model 'm': endpoint_base_url: the URL" in dry.err
    assert "answering model 'm': endpoint_base_url: the URL" in doctor.out


def test_the_price_at_an_unusual_url_is_unknown(tmp_path: Path) -> None:
    model = json.dumps({"id": "m", "interface": "openai", "model_name": "m", "endpoint_base_url": "unix://[::1"})
    done = run_karenina("run", genes(tmp_path), "-a", model, "-j", model, "--dry-run", plugins=Plugins.discover())

    assert done.code == 0, done.err
    assert "Price of m (openai:m): unknown because" in done.out


def test_a_dry_run_without_a_judge_says_what_the_run_would_say(tmp_path: Path) -> None:
    model = "openai:m@http://localhost:1/v1"
    done = run_karenina("run", genes(tmp_path), "-a", model, "--dry-run", plugins=Plugins.discover())

    assert done.code == 2
    assert f"no judge is configured, but ParseTemplate needs one for {QUESTIONS} of {QUESTIONS} questions" in done.err


def test_an_answer_that_is_kept_is_not_estimated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = genes(tmp_path)
    with counting_server() as server:
        run(server, file, "--limit", "10")
        other = ("--set", 'prompt_config={"parsing": "Be brief."}')
        _, found = run(server, file, *other, "--dry-run")
    lines = {line["stage"]: line["calls"][1] for line in found["estimate"]["lines"]}
    assert (found["estimate"]["done"], lines["GenerateAnswer"]) == (0, QUESTIONS - 10)


def test_an_estimate_after_a_change_of_recordings_says_that_it_may_be_too_high(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file, answers = genes(tmp_path), tmp_path / "answers.jsonl"
    lines = [json.dumps({"question": f"Which gene is GENE{at}?", "answer": f"It is GENE{at}."}) for at in range(2)]
    answers.write_text(lines[0] + "\n", "utf-8")
    with counting_server() as server:
        model = f"openai:j@{server.url}"
        recorded = ("run", file, "--recordings", answers, "--judge", model, "--set", "partial_recordings=true")
        karenina(*recorded, "--limit", "2")
        answers.write_text("\n".join(lines), "utf-8")
        _, found = karenina(*recorded, "--limit", "2", "--dry-run")
        before = len(asked(server))
        karenina(*recorded, "--limit", "2")
        assert len(asked(server)) == before + 1
    (line,) = found["estimate"]["lines"]
    assert line["calls"][1] == 2
    assert "are not paid for again" in json.dumps(found["estimate"]["not_counted"])


def test_costs_without_a_price_are_unknown_and_sums_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = genes(tmp_path)
    with counting_server() as server:
        _, found = run(server, file, "--limit", "2", "--set", 'prices={"m": {"input": 1, "output": 4}}')
        shown = CliRunner().invoke(build_app(), ["status", "genes.journal"], env={"COLUMNS": "160"}).stdout
    by_model = {one["model"]: one for one in found["money"]["by_model"]}
    assert cost(by_model["m"]) == 2 * ANSWER
    assert (by_model["j"]["cost_usd"], by_model["j"]["unpriced"]) == (None, 2)
    assert cost(found["money"]["spent"]) == 2 * ANSWER
    assert "unknown" in shown
    assert f"at least ${2 * ANSWER}" in shown


@pytest.mark.parametrize("counted", [(30, 0), (0, 200), (0, 0)])
def test_costs_are_unknown_if_the_server_leaves_out_counts(
    counted: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = genes(tmp_path)
    with counting_server() as server:
        server.usage = lambda body: JUDGED if "response_format" in body else counted
        _, found = run(server, file, "--limit", "2")
        _, free = run(server, file, "--limit", "2", "-o", "free.jsonl", "--set", f"prices={FREE_ANSWERS}")
    assert cost(found["money"]["spent"]) == 2 * REPLY
    assert [(one["model"], one["unpriced"]) for one in found["money"]["by_model"]] == [("j", 0), ("m", 2)]
    assert free["money"]["spent"]["unpriced"] == 0, "what costs nothing need not be counted"


def said(*arguments: str) -> str:
    done = CliRunner(env={"COLUMNS": "400"}).invoke(build_app(), list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_show_prints_costs_by_model_and_unknown_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = genes(tmp_path)
    with counting_server() as server:
        run(server, file, "--limit", "2", "-o", "known.jsonl")
        run(server, file, "--limit", "2", "-o", "partly.jsonl", "--set", 'prices={"m": {"input": 1, "output": 4}}')
        run(server, file, "--limit", "2", "-o", "unkept.jsonl", "--no-journal")

    _, shown = karenina("show", "known.jsonl")
    assert cost(shown["money"]["spent"]) == 2 * (ANSWER + REPLY)
    assert {one["model"]: cost(one) for one in shown["money"]["by_model"]} == {"m": 2 * ANSWER, "j": 2 * REPLY}
    assert "$0.0237 for 4 calls in all runs of the journal: j $0.0220, m $0.001660" in said("show", "known.jsonl")
    assert "at least $0.001660 for 4 calls in all runs of the journal: j unknown" in said("show", "partly.jsonl")
    assert "unknown: the run that wrote unkept.jsonl did not keep a journal" in said("show", "unkept.jsonl")
    moved = tmp_path / "moved/known.jsonl"
    moved.parent.mkdir()
    moved.write_bytes(Path("known.jsonl").read_bytes())
    cure = "which is not in the same folder as known.jsonl; copy the journal (known.journal) there"
    assert cure in said("show", str(moved))
    assert cure in said("compare", str(moved), "known.jsonl")
    compared = said("compare", "known.jsonl", "partly.jsonl")
    assert "Cost  of B: 2 of 4 calls have no known cost: their models have no price" in compared
    moved.with_name("known.journal").write_bytes(Path("known.journal").read_bytes())
    assert "$0.0237 for 4 calls" in said("show", str(moved))
