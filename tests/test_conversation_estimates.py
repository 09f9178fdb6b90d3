"""What `run --dry-run` and `prompts` count and show of conversations."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import CommandResult, run_karenina

from karenina_core.plugins import Plugins
from karenina_testing import ScriptedModels

QUESTION = """
  - id: {id}
    question: Which gene is the target of {id}?
    turns: {turns}
    answer:
      first: {{turn: 1, description: The gene, ground_truth: BCL2}}
      last: {{description: The year, ground_truth: 2016}}
"""
MODELS = ("-a", "scripted:m", "-j", "scripted:j")
SORRY = "{said: {type: TraceContains, substring: sorry}}"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*scripts: str) -> None:
    questions = "".join(QUESTION.format(id=f"q{at}", turns=turns) for at, turns in enumerate(scripts))
    Path("talk.yaml").write_text(f"karenina: 1\nname: talk\nquestions:{questions}", "utf-8")


def karenina(*arguments: str) -> CommandResult:
    models = ScriptedModels(say=lambda *_: "Sorry.", fill=lambda *_: {"first": "BCL2", "last": 2016})
    plugins = Plugins.discover()
    plugins.register(models)
    return run_karenina(*arguments, plugins=plugins)


def estimate(*more: str, models: Sequence[str] = MODELS) -> dict[str, Any]:
    """Return the lines of an estimate by stage."""
    done = karenina("run", "talk.yaml", *models, "--dry-run", "--json", *more)
    assert done.code == 0, done.err
    return {line["stage"]: line for line in done.json["estimate"]["lines"]}


@pytest.mark.parametrize(
    ("turns", "answers", "judged"),
    [
        ("[a, b]", [3, 3, 3], [2, 2, 2]),
        (f"[a, {{when: {SORRY}, say: b}}, c]", [3, 4, 4], [2, 2, 2]),
        (f"[{{when: {SORRY}, say: b}}]", [1, 2, 2], [1, 2, 2]),
        (f"[a, {{end: {SORRY}}}, b, {{end: {{tool: find}}}}, c]", [2, 4, 4], [2, 2, 2]),
        (f"[{{end: {SORRY}}}, {{when: {SORRY}, say: a}}]", [1, 2, 2], [1, 2, 2]),
    ],
)
def test_conditions_give_a_range_of_calls(turns: str, answers: list[int], judged: list[int]) -> None:
    write(turns)
    lines = estimate("--set", "prices.m={input=1,output=1}")

    assert lines["Converse"]["calls"] == answers
    assert lines["ParseTemplate"]["calls"] == judged
    least, _, most = lines["Converse"]["cost_usd"]
    assert 0 < least < most


def test_every_script_of_many_is_counted() -> None:
    write(*(str([f"message {number}" for number in range(1 + at % 10)]) for at in range(100)))

    assert estimate()["Converse"]["calls"] == [650, 650, 650]


def test_the_range_is_printed() -> None:
    write(f"[a, {{when: {SORRY}, say: b}}]")
    done = karenina("run", "talk.yaml", *MODELS, "--dry-run")

    assert " 2 to 3 " in done.out
    assert "Expected: 4 to 5 calls" in done.out


def test_replies_in_the_journal_narrow_the_range() -> None:
    write("[a, b]")
    karenina("run", "talk.yaml", *MODELS, "--journal", "talk.journal")
    write(f"[a, b, {{when: {SORRY}, say: c}}]")

    assert estimate("--journal", "talk.journal")["Converse"]["calls"] == [0, 1, 1]


@pytest.mark.parametrize(("second", "calls"), [("I am sorry.", 3), ("I am sure.", 2)])
def test_conditions_on_recorded_answers_are_decided(second: str, calls: int) -> None:
    write(f'[{{id: a, say: "Sure?"}}, {{when: {SORRY}, say: "Why?"}}]')
    texts = ["Which gene is the target of q0?", "BCL2", "Sure?", second, *(["Why?", "Because."] if calls == 3 else [])]
    trace = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    Path("answers.jsonl").write_text(json.dumps({"question_id": "q0", "trace": trace}), "utf-8")
    text = (
        Path("talk.yaml")
        .read_text("utf-8")
        .replace("last: {", "sure: {turn: a, description: x, ground_truth: y}\n      last: {")
    )
    Path("talk.yaml").write_text(text, "utf-8")

    lines = estimate(models=("--recordings", "answers.jsonl", "-j", "scripted:j"))
    assert lines.keys() == {"ParseTemplate"}
    assert lines["ParseTemplate"]["calls"] == [calls] * 3


def test_a_preview_shows_the_prompts_of_all_turns() -> None:
    write(f'[{{when: {SORRY}, say: "Why sorry?"}}, {{end: {SORRY}}}, "And then?"]')
    every = karenina("prompts", "talk.yaml", "--json").json["prompts"]
    firm = karenina("prompts", "talk.yaml", "--answer", "BCL2", "--json").json["prompts"]
    weak = karenina("prompts", "talk.yaml", "--answer", "I am sorry.", "--json").json["prompts"]

    last = [[prompt["messages"][-1]["content"] for prompt in shown if prompt["stage"] == "Converse"][1:]
            for shown in (every, firm, weak)]  # fmt: skip
    assert last == [["Why sorry?", "And then?"], ["And then?"], ["Why sorry?"]]
