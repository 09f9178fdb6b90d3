"""The known value `answer.output_tokens` of an agent whose server counts the tokens of only some of its calls."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import run_karenina

from karenina import Benchmark, VerificationResultSet
from karenina_benchmark.rescore_request import rescore_results
from karenina_core.data.trust import NO_TRUST
from karenina_core.models.ports import ToolCall, Usage
from karenina_core.plugins import Plugins
from karenina_testing.server import Request, Say, ScriptedServer

TALKING = Path(__file__).parents[1] / "plugins/mcp/tests/talking_server.py"
TEXT = "      found: {verify_with: {type: TraceContains, substring: It is 7}}\n"
TOKENS = "      tokens: {from: answer.output_tokens, ground_truth: 20, verify_with: {type: NumericMaximum}}\n"


def write(answer: str) -> None:
    question = f"  - id: q\n    question: Which number\n    answer:\n{answer}"
    Path("b.yaml").write_text(f"karenina: 1\nname: b\nquestions:\n{question}", "utf-8")


def run(url: str, output: str, *more: str) -> dict[str, Any]:
    """Run the benchmark with an agent, and return its only result."""
    model = {
        "id": "m",
        "interface": "openai",
        "model_name": "m",
        "endpoint_base_url": url,
        "endpoint_api_key": "none",
        "mcp_urls_dict": {"tally": shlex.join([sys.executable, str(TALKING), "count"])},
    }
    options = ("-a", json.dumps(model), "-o", output, "--full", *more)
    done = run_karenina("run", "b.yaml", *options, plugins=Plugins.discover())
    assert done.code in (0, 4), done.err
    (line,) = Path(output).read_text("utf-8").splitlines()[1:]
    return json.loads(line)


def reply_with(counts: Sequence[int], request: Request) -> Say:
    """Return a call of a tool, and then the answer, with these numbers of output tokens."""
    at = sum(message["role"] == "assistant" for message in request.body["messages"])
    call = [ToolCall("c1", "count", {"n": 1})] if at == 0 else []
    return Say(None if call else "It is 7.", call, usage=Usage(10, counts[at]))


@pytest.mark.parametrize(
    ("counts", "holds", "why"),
    [
        ((5, 4), True, None),
        ((5, 0), None, "the server of 'm' counted no output tokens in 1 call of an agent"),
    ],
)
def test_a_partial_sum_of_an_agents_tokens_is_undecided(
    counts: Sequence[int], holds: bool | None, why: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ScriptedServer(lambda request: reply_with(counts, request), path="/v1") as server:
        write(TEXT + TOKENS)
        live = run(server.url, "b.jsonl")
        calls = len(server.log)
        replayed = run(server.url, "again.jsonl", "--journal", "b.journal", "--replay")

    assert calls == 2
    for result in (live, replayed):
        assert result["template"]["field_results"] == {"found": True, "tokens": holds}
        assert result["template"]["known_values"]["answer.output_tokens"]["why"] == why


def test_a_partial_sum_in_a_result_is_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(TEXT)
    with ScriptedServer(lambda request: reply_with((5, 0), request), path="/v1") as server:
        run(server.url, "text.jsonl", "--no-journal")
    write(TEXT + TOKENS)
    rescore_results(Path("text.jsonl"), Benchmark.load("b.yaml"), NO_TRUST, Path("scored.jsonl"))

    (scored,) = VerificationResultSet.load(Path("scored.jsonl"))
    assert scored.template.field_results == {"found": True, "tokens": None}
