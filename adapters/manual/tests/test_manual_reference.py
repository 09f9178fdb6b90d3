"""Recordings as the reference project writes them: by the MD5 of the question, as text with headings."""

from __future__ import annotations

import json
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import AgentOptions, CallInfo, Message
from karenina_manual import plugin
from karenina_manual.ports import RecordedAgent, RecordedLLM

pytestmark = pytest.mark.anyio
SPEC = plugin.karenina_adapters()[0]
INFO = CallInfo("q1", "Where is BRCA1?")
KEY = md5(INFO.question.encode()).hexdigest()
TRACE = """--- AI Message ---

Tool Calls:
  lookup (call_c1)
   Call ID: c1
   Args: {'gene': 'BRCA1'}

--- Tool Message (call_id: c1) ---
17q21

--- AI Message ---
On 17q21."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def model(traces: Any, **extra: Any) -> ModelConfig:
    return ModelConfig(id="m", interface="manual", model_name="recorded", manual_traces=traces, extra=extra)


def file_of(folder: Path, value: object, name: str = "traces.json") -> Path:
    file = folder / name
    file.write_text(json.dumps(value), "utf-8")
    return file


async def roles(recorded: ModelConfig) -> list[str]:
    reply = await RecordedAgent(recorded).run([Message.user(INFO.question)], AgentOptions(), info=INFO)
    return [message.role for message in reply.trace]


@pytest.mark.parametrize("kind", ["file", "mapping"])
async def test_a_trace_is_found_by_the_md5_of_its_question(kind: str, tmp_path: Path) -> None:
    traces: Any = {KEY: TRACE}
    recorded = model(file_of(tmp_path, traces) if kind == "file" else traces)
    assert SPEC.needs_agent is not None
    assert SPEC.needs_agent(recorded)(INFO)
    assert await roles(recorded) == ["assistant", "tool", "assistant"]
    assert (await RecordedLLM(recorded).invoke([], info=INFO)).text == "On 17q21."
    assert SPEC.mismatches is not None
    assert list(SPEC.mismatches(recorded, [INFO], ())) == []


async def test_plain_text_by_md5_is_an_answer(tmp_path: Path) -> None:
    recorded = model(file_of(tmp_path, {KEY: "On 17q21."}))
    assert (await RecordedLLM(recorded).invoke([], info=INFO)).text == "On 17q21."
    assert SPEC.needs_agent is not None
    assert not SPEC.needs_agent(recorded)(INFO)


async def test_text_of_a_row_is_split_only_on_request(tmp_path: Path) -> None:
    file = file_of(tmp_path, {"id": "q1", "response": TRACE}, "rows.jsonl")
    with pytest.raises(AdapterConfigError, match=r"begins with a conversation heading\. Set extra\.delimited"):
        SPEC.check(model(file))  # type: ignore[misc]  # the adapter has one
    assert (await RecordedLLM(model(file, delimited=False)).invoke([], info=INFO)).text == TRACE
    assert await roles(model(file, delimited=True)) == ["assistant", "tool", "assistant"]


async def test_trace_messages_of_a_result_are_a_recording(tmp_path: Path) -> None:
    row = {
        "question_id": "q1",
        "trace_messages": [
            {
                "role": "assistant",
                "content": "",
                "block_index": 0,
                "tool_calls": [{"id": "c1", "name": "a", "input": {}}],
            },
            {"role": "tool", "content": "17q21", "block_index": 1, "tool_result": {"tool_use_id": "c1"}},
            {"role": "assistant", "content": "On 17q21.", "block_index": 2},
        ],
    }
    recorded = model(file_of(tmp_path, row, "rows.jsonl"))
    assert await roles(recorded) == ["assistant", "tool", "assistant"]
    assert (await RecordedLLM(recorded).invoke([], info=INFO)).text == "On 17q21."
