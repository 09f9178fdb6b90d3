"""An agentic judge with the shared fake server: its verdict follows from a file that it read."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import SHARED_SERVERS

from karenina import Benchmark, Outcome, VerificationConfig

SERVER = SHARED_SERVERS / "fake_openai.py"


def code(number: int) -> str:
    """Return the code word of an item, as the server has it; it asks tools for a file of that name."""
    return f"QX{(number * 7919 + 13) % 1000003}Z"


@pytest.fixture
def server() -> Iterator[str]:
    if not SERVER.is_file():
        pytest.skip("the shared servers are not beside this checkout")
    process = subprocess.Popen([sys.executable, str(SERVER), "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        for _ in range(100):
            try:
                urllib.request.urlopen(f"{url}/models", timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize(("content", "outcome"), [("QX11111Z", Outcome.CORRECT), ("QX22222Z", Outcome.WRONG)])
def test_the_agent_judges_by_a_file_of_a_copied_workspace(
    server: str, tmp_path: Path, content: str, outcome: Outcome
) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / code(7)).write_text(f"The register says {content}.\n")
    benchmark = Benchmark.create("registers")
    benchmark.add_question(
        "What does the register of item #7 say?",
        answer_template="class Answer(BaseAnswer):\n    word: str = VerifiedField("
        'description="The code word that stands in the file", ground_truth="QX11111Z", verify_with=ExactMatch())\n',
        question_id="q",
        workspace_path="task",
    )
    benchmark.workspace_root = tmp_path
    model = {"interface": "openai", "model_name": "fake", "endpoint_base_url": server}
    (result,) = benchmark.run_verification(
        VerificationConfig(
            answering_models=[{"id": "a", **model}],
            parsing_models=[{"id": "j", **model, "extra": {"first_turn": "tool"}}],
            agentic_parsing=True,
        )
    )
    assert result.metadata.error is None
    assert content in (result.template.investigation_trace or "")
    assert result.template.parsed_llm_response == {"word": content}
    assert result.outcome is outcome
    assert [path.name for path in tmp_path.iterdir()] == ["task"]
