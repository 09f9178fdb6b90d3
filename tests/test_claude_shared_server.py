"""Whole runs with `claude_tool` in both roles: the real SDK over HTTP with the shared fake Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Environment
from servers import SHARED_SERVERS, played_server

from karenina import Benchmark, Outcome, VerificationConfig

KEY = "sk-fake-4711"
QUESTIONS = """karenina: 1
name: Registers
questions:
  - id: right
    question: What does the register say?
    answer: {word: {description: The code word, ground_truth: QX11111Z}}
  - id: wrong
    question: And what does the register of tomorrow say?
    answer: {word: {description: The code word, ground_truth: QX22222Z}}
"""
TEMPLATE = """class Answer(BaseAnswer):
    word: str = VerifiedField(
        description="The code word that stands in the register", ground_truth="QX33333Z", verify_with=ExactMatch()
    )
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with played_server("claude_server.py", SHARED_SERVERS / "fake_anthropic.py") as url:
        yield url


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)


def claude(url: str, role: str, **extra: Any) -> dict[str, Any]:
    """Return a model on the server."""
    values = {"interface": "claude_tool", "model_name": "claude-fake", "endpoint_base_url": url, "extra": extra}
    return {"id": role, "endpoint_api_key": KEY, **values}


def test_the_command_has_questions_answered_and_judged(server: str, site: Environment) -> None:
    """The server is overloaded at first: the run asks again, and nothing is lost."""
    models = [json.dumps(claude(server, role, prompt_caching="5m")) for role in ("a", "j")]
    done = site.karenina("run", site.write("registers.yaml", QUESTIONS), "-a", models[0], "-j", models[1], "--json")

    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    assert {one["question_id"]: one["outcome"] for one in results} == {"right": "correct", "wrong": "wrong"}
    assert KEY not in done.stdout + done.stderr


@pytest.mark.parametrize(("content", "outcome"), [("QX33333Z", Outcome.CORRECT), ("QX44444Z", Outcome.WRONG)])
def test_an_agentic_judge_judges_by_a_file(server: str, tmp_path: Path, content: str, outcome: Outcome) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "register").write_text(f"Today: {content}\n")
    benchmark = Benchmark.create("registers")
    benchmark.add_question(
        "What does the register say?", answer_template=TEMPLATE, question_id="q", workspace_path="task"
    )
    benchmark.workspace_root = tmp_path

    (result,) = benchmark.run_verification(
        VerificationConfig(
            answering_models=[claude(server, "a")],
            parsing_models=[claude(server, "j", first_turn="tool")],
            agentic_parsing=True,
        )
    )

    assert result.metadata.error is None
    assert content in (result.template.investigation_trace or "")
    assert result.template.parsed_llm_response == {"word": content}
    assert result.outcome is outcome
