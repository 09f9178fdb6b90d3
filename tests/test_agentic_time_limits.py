"""Time limits of agents in whole runs: waiting for a free slot or before a retry is not counted."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResultSet
from karenina_core.models.ports import ToolCall
from karenina_testing.contracts import ChatCompletions, Reply, Request

ITEMS: Final = 60
SECONDS: Final = 1.5
"""The time limit of each agent, which makes two requests of `EACH` seconds and reads one file."""
EACH: Final = 0.03
SLOWER: Final = (1, 6, 36)
"""A busy machine gets more time: the limit and the requests take so many times as long."""
READ: Final = ToolCall("call_1", "read_file", {"path": "code.txt"})


class _Server(ChatCompletions):
    """Agents read a file and report what it says; the first report of the sixtieth item is refused once."""

    entry_point = "karenina_openai:plugin"
    interface = "openai"

    def __init__(self, slower: float) -> None:
        self._refused = threading.Event()
        self._each = EACH * slower

    async def answer(self, request: Request) -> Reply:
        said = self.read(request)
        if "response_format" in request.body:
            code = re.search(r"QX\d+", said[-1].content)
            return self.filling(json.dumps({"code": code and code[0]}))(request)
        if "tools" not in request.body:
            return self.saying("I do not know.")
        if said[-1].role != "tool":
            await asyncio.sleep(self._each)
            return self.saying("", READ)
        if "QX40" in said[-1].content and not self._refused.is_set():
            self._refused.set()
            return self.failing(429, Retry_After="1")
        await asyncio.sleep(self._each)
        return self.saying(f"The file says: {said[-1].content}")


def _benchmark(root: Path) -> Benchmark:
    """Questions about one file each; the code of every third one is another than the truth."""
    made = Benchmark.create("files")
    made.workspace_root = root
    for number in range(ITEMS):
        folder = root / f"task{number}"
        folder.mkdir(parents=True)
        (folder / "code.txt").write_text(f"QX{number if number % 3 else number + 100}")
        source = (
            'class Answer(BaseAnswer):\n    code: str = VerifiedField(description="The code in the file", '
            f'ground_truth="QX{number}", verify_with=ExactMatch())\n'
        )
        made.add_question(f"Which code is in file {number}?", answer_template=source, workspace_path=folder.name)
    return made


def _run(url: str, root: Path, slower: float, **settings: Any) -> VerificationResultSet:
    model = {"interface": "openai", "endpoint_base_url": f"{url}/v1", "endpoint_api_key": "none"}
    config = VerificationConfig(
        answering_models=[{"id": "answering", "model_name": "small", **model}],
        parsing_models=[{"id": "judge", "model_name": "large", **model}],
        agentic_parsing=True,
        agentic_parsing_timeout=SECONDS * slower,
        **settings,
    )
    return _benchmark(root).run_verification(config)


@pytest.mark.parametrize("at_once", [1, 2, 8])
def test_concurrency_and_a_refusal_do_not_change_verdicts(tmp_path: Path, at_once: int) -> None:
    """With one call at a time, the last investigation waits far longer than its time limit."""
    for slower in SLOWER:
        script = _Server(slower)
        with script.server(script.answer) as server:
            results = _run(server.url, tmp_path / str(slower), slower, model_concurrency={"judge": at_once})
        if not any(result.metadata.error for result in results):
            break
    assert [result.metadata.error for result in results if result.metadata.error] == []
    assert Counter(result.outcome for result in results) == {Outcome.CORRECT: 40, Outcome.WRONG: 20}
    assert [result.outcome is Outcome.WRONG for result in results] == [number % 3 == 0 for number in range(ITEMS)]
    retried = [result for result in results if any(stage.retries for stage in result.stages)]
    assert len(retried) == 1
