"""A whole run with `claude_agent_sdk`: the real CLI works in a workspace, with the shared fake of Claude's server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from conftest import Environment
from servers import SHARED_SERVERS, played_server

from karenina_sandbox.providers.bwrap import SANDBOX

KEY = "sk-fake-4711"
QUESTIONS = """karenina: 1
name: Registers
questions:
  - id: right
    question: What does the register say? Write it into the file "found".
    workspace_path: right
    answer:
      word: {description: The code word, ground_truth: QX11111Z}
  - id: wrong
    question: What does the register say? Write it into the file "found".
    workspace_path: wrong
    answer:
      word: {description: The code word, ground_truth: QX11111Z}
"""


@pytest.fixture
def server() -> Iterator[str]:
    with played_server("claude_agent_server.py", SHARED_SERVERS / "fake_anthropic.py") as url:
        yield url


def test_the_command_has_questions_answered_in_a_workspace_and_judged(server: str, site: Environment) -> None:
    """The server is overloaded at first: the request is made again, and nothing is lost."""
    for name, word in (("right", "QX11111Z"), ("wrong", "QX22222Z")):
        (site.folder / name).mkdir()
        (site.folder / name / "register").write_text(f"Today: {word}\n")
    model = {"interface": "claude_agent_sdk", "model_name": "claude-fake", "endpoint_base_url": server}
    models = [json.dumps({"id": role, "endpoint_api_key": KEY, **model}) for role in ("a", "j")]
    set_to = ("agentic_parsing=true", "agentic_judge_context=trace_only", "workspace_root=.", "workspace_cleanup=false")
    options = [option for value in set_to for option in ("--set", value)]
    options += ["--sandbox", "none" if SANDBOX.unavailable() else "bwrap"]

    done = site.karenina(
        "run", site.write("registers.yaml", QUESTIONS), "-a", models[0], "-j", models[1], "--json", *options
    )

    assert done.returncode == 0, done.stderr
    results = {one["question_id"]: one for one in json.loads(done.stdout)["results"]}
    assert {id: one["outcome"] for id, one in results.items()} == {"right": "correct", "wrong": "wrong"}
    assert KEY not in done.stdout + done.stderr
    assert {file.parent.name.partition("_")[0]: file.read_text() for file in site.folder.glob("*_run_*/found")} == {
        "right": "QX11111Z",
        "wrong": "QX22222Z",
    }
    if os.geteuid() == 0 and not SANDBOX.unavailable():  # in a sandbox, root's programs have another user id
        assert all(file.stat().st_uid >= 64_000 for file in site.folder.glob("*_run_*/found"))
    used = results["right"]["template"]["agent_metrics"]
    assert (used["iterations"], used["tool_calls"], used["suspect_failed_tool_calls"]) == (3, 3, 1)
