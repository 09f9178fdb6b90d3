"""`karenina demo --recorded`: the demo's questions and prompts, with the replies that are shipped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_runs import run_karenina

from karenina_cli.commands import demo_command
from karenina_core.plugins import Plugins
from karenina_local.demo import Demo


def test_the_recorded_demo_has_a_reply_to_each_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARENINA_MODELS", str(tmp_path / "none"))

    done = run_karenina("demo", "--recorded", plugins=Plugins.discover())

    assert done.code == 0, "after a change of the demo or of a judge's prompt, run scripts/record_demo.py"
    assert "A recorded run: no model runs now. smollm2-135m answered, and qwen2.5-coder-0.5b judged." in done.err
    assert "1/14  war" in done.out
    assert "10 of 14 judged items correct" in done.out
    assert not (tmp_path / "none").exists()


def test_the_demo_says_how_far_it_is_without_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_command, "SILENCE", 0.005)

    done = run_karenina("demo", "--recorded", "--output", tmp_path / "out.jsonl", plugins=Plugins.discover())

    assert re.search(r"^\d+ s: \d+ of 14 answered, \d+ judged$", done.err, re.MULTILINE)


def test_the_recorded_demo_names_prompts_without_a_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = tmp_path / "questions.yaml"
    with Demo().questions() as path:
        questions.write_text(path.read_text("utf-8").replace("lowers blood sugar?", "lowers sugar?"), "utf-8")
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(Demo().recorded_config()), "utf-8")

    done = run_karenina(
        "run",
        questions,
        "--config",
        config,
        "--question",
        "insulin",
        "--output",
        tmp_path / "out.jsonl",
        plugins=Plugins.discover(),
    )

    assert done.code != 0
    assert "has no reply to this prompt" in done.out + done.err


def test_the_recorded_demo_shows_no_other_model(tmp_path: Path) -> None:
    done = run_karenina("demo", "--recorded", "--judge", "qwen2.5-coder-1.5b", plugins=Plugins.discover())

    assert done.code == 2
    assert "leave out --answering and --judge" in done.err
