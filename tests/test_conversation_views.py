"""Conversations for people: `karenina show`, notebooks, the page for labels, and the report in a browser."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import OpenPage
from command_runs import CommandResult, run_karenina
from playwright.sync_api import expect

from karenina import VerificationResultSet
from karenina_core.models.ports import Message
from karenina_core.plugins import Plugins
from karenina_core.text import to_html
from karenina_testing import ScriptedModels

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

pytest_plugins = ("chromium",)

TALK = """
karenina: 1
name: talk
questions:
  - id: pressure
    question: Which gene is the target of venetoclax?
    turns:
      - say: Are you sure?
      - when: {said: {type: TraceRegex, pattern: "BCR-?ABL"}}
        say: Why did you change your mind?
        id: why
      - say: In which year was it approved?
        id: year
    answer:
      gene: {turn: 1, description: The gene that the response names, ground_truth: BCL2}
      reason: {turn: why, description: The reason for the change, ground_truth: pressure}
      year: {turn: year, description: The year of approval, ground_truth: 2016}
"""
SAID = ("It is BCL2.", "Yes. [3] user\nwould ask.", "In 2016.")
VALUES = {"gene": "BCL2", "reason": None, "year": 2015}
SHOWN = [
    "Turn 1",
    "assistant",
    "| It is BCL2.",
    "Turn 2",
    "user",
    "| Are you sure?",
    "assistant",
    "| Yes. [3] user",
    "| would ask.",
    "Turn 3 (why): left out",
    "Turn 4 (year)",
    "user",
    "| In which year was it approved?",
    "assistant",
    "| In 2016.",
]


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugins:
    """Return the plugins of a run that wrote `talk.jsonl`."""
    monkeypatch.chdir(tmp_path)
    Path("talk.yaml").write_text(TALK, "utf-8")
    found = Plugins.discover()
    found.register(ScriptedModels(say=say, fill=fill))
    run_karenina(
        "run", "talk.yaml", "-a", "scripted:m", "-j", "scripted:j", "-o", "talk.jsonl", "--full", plugins=found
    )
    return found


def say(messages: Sequence[Message], _info: object) -> str:
    return SAID[sum(message.role == "assistant" for message in messages)]


def fill(_messages: object, schema: Mapping[str, Any], _info: object) -> dict[str, Any]:
    return {name: VALUES[name] for name in schema["properties"]}


def show(plugins: Plugins, file: str = "talk.jsonl") -> CommandResult:
    return run_karenina("show", file, plugins=plugins)


def test_show_prints_the_turns_with_their_numbers(plugins: Plugins) -> None:
    lines = [line.removeprefix("  Answer").strip() for line in show(plugins).out.splitlines()]

    at = lines.index("Turn 1")
    assert lines[at : at + len(SHOWN)] == SHOWN


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ("{when: {said: {type: TraceRegex, pattern: BRAF}}, say: Why}", "Turn 2: left out"),
        ("{end: {said: {type: TraceRegex, pattern: BCL2}}}", None),
    ],
)
def test_the_answer_of_a_single_turn_is_shown(plugins: Plugins, entry: str, shown: str | None) -> None:
    script = TALK[: TALK.index("    turns:")] + f"    turns: [{entry}]\n"
    gene = "    answer: {gene: {description: The gene that the response names, ground_truth: BCL2}}\n"
    Path("talk.yaml").write_text(script + gene, "utf-8")
    done = run_karenina("run", "talk.yaml", "-a", "scripted:m", "-j", "scripted:j", "-o", "one.jsonl", plugins=plugins)
    lines = [line.removeprefix("  Answer").strip() for line in show(plugins, file="one.jsonl").out.splitlines()]

    at = lines.index("Turn 1")
    assert lines[at : at + 3] == ["Turn 1", "assistant", "| It is BCL2."], done.err
    assert shown is None or lines[at + 3] == shown


def test_show_says_which_field_has_no_turn(plugins: Plugins) -> None:
    (row,) = [line for line in show(plugins).out.splitlines() if line.split()[:1] == ["reason"]]

    assert "(its turn was left out)" in row


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("turn: why, missing_turn: wrong, verify_with: {type: TraceContains, substring: doubt}", "left out"),
        ("turn: why, missing_turn: wrong, ground_truth: pressure", "left out"),
        ("turn: year, verify_with: {type: TraceContains, substring: doubt}", "missing"),
        ("turn: year, missing_turn: wrong, ground_truth: pressure", "missing"),
    ],
)
def test_show_says_why_a_field_has_no_turn(plugins: Plugins, options: str, shown: str) -> None:
    Path("talk.yaml").write_text(f"{TALK}      reads: {{description: The reason, {options}}}\n", "utf-8")
    said = ["Which gene is the target of venetoclax?", *SAID[:1], "Are you sure?", *SAID[1:2]]
    if shown == "left out":
        said += ["In which year was it approved?", SAID[2]]
    recorded = [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(said)]
    Path("said.jsonl").write_text(json.dumps({"id": "pressure", "messages": recorded}) + "\n", "utf-8")
    run = ("run", "talk.yaml", "--recordings", "said.jsonl", "-j", "scripted:j", "-o", "said-out.jsonl", "--partial")
    done = run_karenina(*run, plugins=plugins)
    rows = [line for line in show(plugins, "said-out.jsonl").out.splitlines() if "reads" in line.split()[:2]]

    assert any(f"(its turn {'was' if shown == 'left out' else 'is'} {shown})" in row for row in rows), (
        done.out + done.err
    )


def test_a_notebook_shows_the_turns(plugins: Plugins) -> None:
    (result,) = VerificationResultSet.load(Path("talk.jsonl"))

    assert "Turn 3 (why): left out" in to_html(result)


@pytest.mark.parametrize("described", ["none", {"turns": 3}, {"turns": [3], "ended": 4}, {"turns": [{"turn": []}]}])
def test_a_conversation_that_cannot_be_read_is_shown_as_text(plugins: Plugins, described: object) -> None:
    head, line = Path("talk.jsonl").read_text("utf-8").splitlines()
    result = json.loads(line)
    result["extensions"]["karenina-conversation"]["conversation"] = described
    result["extensions"]["karenina-template"] = {"field_turns": {"gene": []}, "left_out": 3}
    Path("talk.jsonl").write_text(f"{head}\n{json.dumps(result)}\n", "utf-8")
    done = show(plugins)
    labels = run_karenina("label", "talk.jsonl", "--page", "label.html", "--labeller", "ann", plugins=plugins)

    assert (done.code, labels.code) == (0, 0), done.err + labels.err
    assert "[2] user" in done.out


def test_the_label_page_shows_turns_and_asks_about_one(plugins: Plugins, context: BrowserContext) -> None:
    done = run_karenina("label", "talk.jsonl", "--page", "label.html", "--labeller", "ann", plugins=plugins)
    assert done.code == 0, done.err
    opened = OpenPage(context, Path("label.html").absolute(), "")

    assert opened.part("answer").inner_text().splitlines() == SHOWN
    opened.page.keyboard.press("n")
    expect(opened.part("asked").nth(1)).to_contain_text("Does the answer in turn 1 say gene = BCL2?")
    expect(opened.part("asked").nth(2)).to_contain_text("Does the answer in turn 4 say year = 2015?")
    expect(opened.part("asked")).to_have_count(3)
    assert opened.problems == []


def test_the_report_shows_the_turns_of_a_conversation(plugins: Plugins, context: BrowserContext) -> None:
    done = run_karenina("report", "talk.jsonl", "-o", "talk.html", plugins=plugins)
    assert done.code == 0, done.err
    opened = OpenPage(context, Path("talk.html").absolute(), "#item?at=1")
    turns = opened.part("turn")

    expect(turns).to_have_text(["Turn 1", "Turn 2", "Turn 3 (why): left out", "Turn 4 (year)"])
    lists = opened.page.locator("h4[data-test=turn] + ol")
    expect(lists).to_have_count(3)
    assert [lists.nth(at).locator("li b").all_inner_texts() for at in range(3)] == [["user", "assistant"]] * 3
    expect(lists.first).to_contain_text("Which gene is the target of venetoclax?")
    expect(lists.nth(2)).to_contain_text("In 2016.")
    expect(opened.page.locator("body")).to_contain_text("turn 'why' was left out because of its condition")
    assert opened.problems == []
