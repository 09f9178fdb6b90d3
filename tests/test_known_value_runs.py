"""Runs of templates with known values: which calls they make, and what they store, print, replay and score again."""

from __future__ import annotations

import csv
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import CommandResult, run_karenina
from offers import offering

from karenina import Benchmark, Outcome, VerificationResultSet
from karenina_benchmark.rescore_request import rescore_results
from karenina_core import Stage, VerificationContext, VerificationResult
from karenina_core.artifacts.artifact import Slot
from karenina_core.data.sections import KnownValue
from karenina_core.data.trust import NO_TRUST
from karenina_core.models.ports import (
    AgentReply,
    CallInfo,
    ErrorCategory,
    LLMReply,
    Message,
    PortError,
    ToolCall,
    Usage,
)
from karenina_core.plugins import Plugins
from karenina_testing import ScriptedModels
from karenina_toolkit.answer_values import values_of_result

FIND, REFUND = ToolCall("a", "find_order", {"customer": "Ada"}), ToolCall("b", "mcp__shop__refund", {"order": "W12"})
TRACE = [
    Message.assistant("", [FIND]),
    Message.tool("it is W12", FIND),
    Message.assistant("", [REFUND]),
    Message.tool("refunded", REFUND),
    Message.assistant("Your order W12 is refunded."),
]
TOOLS = """
      tools:
        from: trace.tools
        ground_truth: [find_order, refund]
        verify_with: {type: SetContainment, mode: superset}
      steps: {from: trace.steps, ground_truth: 8, verify_with: {type: NumericMaximum}}
      order: {from: trace.arguments.refund.order, ground_truth: [W12]}
"""
JUDGED = """
      kind: {description: Whether the assistant is polite, ground_truth: true}
"""
ENDED = """
      ended: {from: trace.stopped_by, ground_truth: nothing}
"""
COST = """
      cost: {from: answer.cost, ground_truth: 0.001, verify_with: NumericMaximum}
      seconds: {from: answer.seconds, ground_truth: 60, verify_with: NumericMaximum}
      tokens: {from: answer.output_tokens, ground_truth: 5}
      words: {from: answer.words, ground_truth: 20, verify_with: NumericMaximum}
"""
AGENT = json.dumps(
    {"id": "m", "interface": "scripted", "model_name": "m", "mcp_urls_dict": {"shop": "http://localhost:1/mcp"}}
)
PRICES = ("--set", "prices.m={input = 2.0, output = 10.0}")


class Orders:
    """A benchmark of one order, an agent that refunds it, and a judge."""

    def __init__(self, fields: str, *more: object) -> None:
        self.models = ScriptedModels(
            say=lambda _messages, _info: "Your order W12 is refunded.",
            act=lambda _messages, _info: TRACE,
            fill=lambda _messages, schema, _info: dict.fromkeys(schema["properties"], True),
        )
        self.plugins = Plugins.discover()
        for plugin in (self.models, *more):
            self.plugins.register(plugin)
        self.write(fields)

    def write(self, fields: str) -> None:
        text = f"karenina: 1\nname: Orders\nquestions:\n  - id: q1\n    question: Return W12.\n    answer:{fields}"
        Path("orders.yaml").write_text(text, "utf-8")

    def karenina(self, *arguments: str) -> CommandResult:
        return run_karenina(*arguments, plugins=self.plugins)

    def run(self, *more: str, model: str = AGENT, output: str = "orders.results.jsonl") -> CommandResult:
        return self.karenina("run", "orders.yaml", "-a", model, "-o", output, "--journal", "orders.journal", *more)

    @property
    def result(self) -> VerificationResult:
        (result,) = VerificationResultSet.load(Path("orders.results.jsonl"))
        return result

    @property
    def known(self) -> dict[str, KnownValue]:
        return self.result.template.known_values or {}

    def asked(self, port: str) -> list[str]:
        """Return what models saw through the port."""
        return [request.text for request in self.models.requests if request.port == port]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARENINA_STATE_HOME", str(tmp_path / "state"))


def test_known_fields_alone_need_no_judge() -> None:
    orders = Orders(TOOLS)
    done = orders.run()

    assert (done.code, orders.result.outcome) == (0, Outcome.CORRECT), done.err
    assert orders.asked("parser") == []
    assert orders.known == {
        "trace.tools": KnownValue(value=["find_order", "refund"], fields=["tools"]),
        "trace.steps": KnownValue(value=3, fields=["steps"]),
        "trace.arguments.refund.order": KnownValue(value=["W12"], fields=["order"]),
    }


def test_a_dry_run_and_the_plan_count_no_judge() -> None:
    orders = Orders(TOOLS)
    estimate = orders.run("--dry-run", "--json").json["estimate"]
    plan = orders.karenina("plan", "orders.yaml")
    facts = orders.karenina("plan", "orders.yaml", "--json").json

    assert [line["stage"] for line in estimate["lines"]] == ["GenerateAnswer"]
    assert estimate["not_counted"] == []
    assert "Known values:\n  trace.arguments.refund.order, offered by GenerateAnswer\n" in plan.out
    assert "No judge is called: known values fill all fields." in plan.out
    assert facts["without_judge"] == ["q1"]
    assert {"name": "trace.steps", "stages": ["GenerateAnswer"]} in facts["known_values"]


def test_a_plan_with_a_judge_does_not_say_that_none_is_called() -> None:
    plan = Orders(TOOLS + JUDGED).karenina("plan", "orders.yaml")

    assert "Known values:" in plan.out
    assert "No judge" not in plan.out


def test_a_judge_learns_nothing_about_known_fields() -> None:
    orders = Orders(TOOLS + JUDGED)
    orders.run("-j", "scripted:j")
    (seen,) = orders.asked("parser")

    assert orders.result.outcome is Outcome.CORRECT
    assert orders.result.template.parsed_llm_response == {"kind": True}
    assert [word for word in ("trace.", "steps", "tools", "find_order") if word in seen] == []


@pytest.mark.parametrize(("truth", "other"), [("8", "2"), ("[W12]", "[W13]")])
def test_a_known_value_that_differs_is_not_correct(truth: str, other: str) -> None:
    orders = Orders(TOOLS.replace(truth, other) + JUDGED)
    orders.run("-j", "scripted:j")

    assert orders.result.outcome is Outcome.PARTIAL
    assert "differs from the ground truth" in orders.result.why()


def test_cost_is_that_of_the_run_that_made_the_calls() -> None:
    orders = Orders(COST)
    orders.run(*PRICES)
    first = orders.known
    again = orders.run("--replay", "--set", "prices.m={input = 9.0, output = 9.0}", output="again.jsonl")
    (replayed,) = VerificationResultSet.load(Path("again.jsonl"))

    assert orders.result.outcome is Outcome.CORRECT
    assert first["answer.cost"] == KnownValue(value=7e-05, fields=["cost"])  # 10 and 5 tokens
    assert first["answer.output_tokens"].value == 5
    assert first["answer.words"].value == 5
    assert again.code == 0, again.err
    assert replayed.template.known_values == first


def test_an_unknown_price_leaves_the_item_undecided() -> None:
    orders = Orders(COST)
    orders.run()

    assert orders.result.outcome is Outcome.UNDECIDED
    assert orders.result.template.field_results == {"cost": None, "seconds": True, "tokens": True, "words": True}
    assert "set prices.m = {input = ..., output = ...} in the configuration" in orders.result.why()


def test_seconds_are_those_of_the_request_that_was_answered() -> None:
    orders = Orders(COST)
    tries: list[float] = []

    def say(_messages: Sequence[Message], _info: CallInfo) -> str:
        tries.append(0.0)
        if len(tries) == 1:
            time.sleep(2)
            raise PortError("busy", category=ErrorCategory.CONNECTION)
        return "Your order W12 is refunded."

    orders.models.say = say
    orders.run(*PRICES, model="scripted:m")
    first = orders.known["answer.seconds"]
    orders.run("--replay", model="scripted:m", output="again.jsonl")

    assert len(tries) == 2
    assert isinstance(first.value, float)
    assert 0 < first.value < 2
    (replayed,) = VerificationResultSet.load(Path("again.jsonl"))
    assert (replayed.template.known_values or {})["answer.seconds"] == first


def test_a_server_without_token_counts_leaves_tokens_undecided() -> None:
    orders = Orders(COST)
    orders.models.say = lambda _messages, _info: LLMReply("Your order W12 is refunded.", Usage(calls=1))
    orders.run(*PRICES, model="scripted:m")

    assert orders.known["answer.output_tokens"].why == "the server of 'm' counted no output tokens"
    assert orders.result.template.field_results == {"cost": None, "seconds": True, "tokens": None, "words": True}


@pytest.mark.parametrize(
    ("usage", "shown", "cells", "compared"),
    [
        (Usage(calls=1), "not reported", "- - -", ("- -", "- -")),
        (Usage(7, calls=1), "7 in, output not reported", "7 0 -", ("7 7", "- -")),
        (Usage(output_tokens=7, calls=1), "input not reported, 7 out", "- - 7", ("- -", "7 7")),
    ],
)
def test_tokens_that_a_server_does_not_count_are_not_shown_as_none(
    usage: Usage, shown: str, cells: str, compared: tuple[str, str]
) -> None:
    orders = Orders(COST)
    orders.models.say = lambda _messages, _info: LLMReply("Your order W12 is refunded.", usage)
    ran = orders.run(*PRICES, model="scripted:m")
    shutil.copy("orders.results.jsonl", "again.results.jsonl")
    again = orders.karenina("compare", "orders.results.jsonl", "again.results.jsonl")
    rows = [" ".join(line.split()) for line in f"{ran.out}\n{again.out}".splitlines()]

    assert {
        f"Tokens {shown}, 1 call",
        f"m GenerateAnswer all 1 {cells} unknown",
        f"Tokens in {compared[0]}",
        f"Tokens out {compared[1]}",
    } <= {*rows}


def test_a_recording_has_the_values_of_its_conversation() -> None:
    orders = Orders(TOOLS + COST)
    messages = [message.to_dict() for message in TRACE]
    Path("answers.jsonl").write_text(json.dumps({"id": "q1", "answer": messages}), "utf-8")
    done = orders.karenina("run", "orders.yaml", "--recordings", "answers.jsonl", "-o", "orders.results.jsonl")
    lost = ("cost", "seconds", "tokens")

    assert done.code == 0 or orders.result.outcome is Outcome.UNDECIDED, done.err
    assert orders.known["trace.tools"].value == ["find_order", "refund"]
    assert orders.known["answer.words"].value == 5
    assert {name: (orders.result.template.field_results or {})[name] for name in lost} == dict.fromkeys(lost)
    assert "recordings do not state what an answer cost" in orders.result.why()


def test_a_changed_truth_is_scored_from_stored_values() -> None:
    orders = Orders(COST)
    orders.run(*PRICES)
    asked = len(orders.models.requests)
    orders.write(COST.replace("0.001", "0.00001"))
    by_journal = orders.karenina("rescore", "orders.journal", "-o", "j.jsonl")
    rescore_results(Path("orders.results.jsonl"), Benchmark.load("orders.yaml"), NO_TRUST, Path("r.jsonl"))
    scored = [next(iter(VerificationResultSet.load(Path(name)))) for name in ("j.jsonl", "r.jsonl")]

    assert len(orders.models.requests) == asked
    assert by_journal.code == 0, by_journal.err
    assert [(one.template.field_results or {})["cost"] for one in scored] == [False, False]
    assert scored[0].template.known_values == scored[1].template.known_values == orders.known


def test_a_new_known_field_is_scored_from_the_stored_answer() -> None:
    orders = Orders(JUDGED)
    orders.run("-j", "scripted:j", *PRICES)
    orders.write(JUDGED + TOOLS + COST)
    orders.karenina("rescore", "orders.journal", "-o", "j.jsonl")
    rescore_results(Path("orders.results.jsonl"), Benchmark.load("orders.yaml"), NO_TRUST, Path("r.jsonl"))
    (by_journal,) = VerificationResultSet.load(Path("j.jsonl"))
    (by_result,) = VerificationResultSet.load(Path("r.jsonl"))

    assert by_journal.outcome is Outcome.CORRECT
    assert by_result.template.field_results == {
        **dict.fromkeys(["kind", "tools", "steps", "order", "tokens", "words"], True),
        **dict.fromkeys(["cost", "seconds"]),  # a result does not contain them
    }
    assert by_result.why() == (
        "field cost: the stored result does not contain it; field seconds: the stored result does not contain it"
    )


@pytest.mark.parametrize(
    ("reply", "stopped_by", "outcome"),
    [
        (AgentReply(tuple(TRACE)), "nothing", Outcome.CORRECT),
        (AgentReply(tuple(TRACE), limit_reached=True), "turns", Outcome.AUTO_FAILED),
        (AgentReply(tuple(TRACE), finish_reason="length"), "output", Outcome.TRUNCATED),
        (AgentReply(tuple(TRACE), finish_reason="content_filter"), "filter", Outcome.ABSTAINED),
    ],
)
def test_what_stopped_an_agent_is_known(reply: AgentReply, stopped_by: str, outcome: Outcome) -> None:
    orders = Orders(ENDED)
    orders.models.act = lambda _messages, _info: reply
    orders.run()
    result = orders.result

    assert result.outcome is outcome
    assert orders.known["trace.stopped_by"].value == stopped_by
    result.template.known_values = None  # such as in a result from before the field was added
    assert values_of_result(result, ["trace.stopped_by"]) == {"trace.stopped_by": KnownValue(value=stopped_by)}


def test_a_jury_and_its_escalation_keep_known_values() -> None:
    orders = Orders(TOOLS + JUDGED)
    votes = iter([True, False, True])
    orders.models.fill = lambda _messages, _schema, _info: {"kind": next(votes)}
    done = orders.run(*("-j", "scripted:a", "-j", "scripted:b", "-j", "scripted:c"), "--set", "jury={vote='field'}")

    assert done.code == 0, done.err
    assert orders.result.outcome is Outcome.CORRECT
    assert len(orders.asked("parser")) == 3
    assert orders.known["trace.steps"].value == 3


@pytest.mark.parametrize("vote", ["field", "verdict"])
def test_a_jury_on_known_fields_alone_asks_nobody(vote: str) -> None:
    orders = Orders(TOOLS)
    orders.run("-j", "scripted:a", "-j", "scripted:b", "--set", f"jury={{vote='{vote}'}}")

    assert (orders.result.outcome, orders.asked("parser")) == (Outcome.CORRECT, [])


def test_show_exports_and_junit_name_the_value() -> None:
    orders = Orders(TOOLS.replace("ground_truth: 8", "ground_truth: 2") + JUDGED)
    orders.run("-j", "scripted:j", "--junit", "orders.xml")
    orders.karenina("export", "orders.results.jsonl", "--table", "fields", "-o", "fields.csv")
    shown = orders.karenina("show", "orders.results.jsonl").out
    rows = {row["field"]: row for row in csv.DictReader(Path("fields.csv").read_text("utf-8").splitlines())}

    assert "3 (trace.steps)" in shown
    assert (rows["steps"]["source"], rows["steps"]["known"], rows["steps"]["extracted"]) == ("trace.steps", "3", "")
    assert (rows["kind"]["source"], rows["kind"]["known"], rows["kind"]["extracted"]) == ("", "", "true")
    assert "Field steps: trace.steps is 3, truth 2" in Path("orders.xml").read_text("utf-8")


class Words(Stage):
    """Counts the words of an answer, once for all judges."""

    name = "Words"
    scope = "answer"
    after = frozenset({Slot.GENERATE_ANSWER})
    offers = {"words.count": int, "words.*": object}

    def execute(self, context: VerificationContext) -> None:
        context.offer_value("words.count", 5)
        context.offer_value("words.lost", None, why="the program crashed")
        context.offer_value("words.gone", None, why="there is no file", counts="wrong")
        context.offer_value("words.unused", "x")


@pytest.mark.parametrize(
    ("source", "outcome", "why"),
    [
        ("words.count", Outcome.CORRECT, "every field matches"),
        ("words.lost", Outcome.UNDECIDED, "field n: the program crashed"),
        ("words.gone", Outcome.WRONG, "n differs from the ground truth"),
        ("words.other", Outcome.UNDECIDED, "no stage has set the known value 'words.other'"),
    ],
)
def test_values_of_another_plugin_are_compared(source: str, outcome: Outcome, why: str) -> None:
    orders = Orders(f"\n      n: {{from: {source}, ground_truth: 5}}\n", offering(extra_stages=[Words]))
    orders.run("-j", "scripted:a", "-j", "scripted:b", model="scripted:m")
    results = list(VerificationResultSet.load(Path("orders.results.jsonl")))

    assert [result.outcome for result in results] == [outcome] * 2
    assert why in results[0].why()
    assert "words.unused" not in Path("orders.results.jsonl").read_text("utf-8")


def test_a_value_of_a_stage_outside_the_plan_is_refused_with_the_reason() -> None:
    done = Orders("\n      n: {from: checks.tests.output, ground_truth: 5}\n").run()

    assert done.code != 0
    assert "RunChecks, which offers it, is not in the plan: the question has no checks" in done.err


def test_primitives_lists_known_values() -> None:
    orders = Orders(TOOLS)
    listed = orders.karenina("primitives")
    known: list[dict[str, Any]] = orders.karenina("primitives", "--json").json["known_values"]

    assert "trace.steps  int  (karenina-generation)" in listed.out
    assert {"name": "trace.tools", "kind": "list[str]", "distribution": "karenina-generation"}.items() <= next(
        one for one in known if one["name"] == "trace.tools"
    ).items()
