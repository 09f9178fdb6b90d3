"""Recordings: answers and conversations of many formats, as the adapter `manual` reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from fuzzing.engine import Kind
from fuzzing.mutation import documents, dump_json, dump_lines, insert_path, parse_tree
from fuzzing.replies import sound
from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import AgentOptions, CallInfo, Message, PortError
from karenina_core.plugins import active_plugins
from karenina_toolkit.plugin_lookup import find_adapter

_OPENAI: Final[list[dict[str, Any]]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Which?"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"gene": "BCL2"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "name": "look_up", "content": "found"},
    {"role": "assistant", "content": "It is BCL2.", "reasoning_content": "well", "refusal": None},
]
_ANTHROPIC: Final[list[dict[str, Any]]] = [
    {"role": "user", "content": "Which?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "look_up", "input": {"gene": "BCL2"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [{"type": "text", "text": "found"}],
                "is_error": False,
            },
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        ],
    },
    {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}]},
    {"role": "assistant", "content": [{"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}]},
    {"role": "assistant", "content": "It is BCL2."},
]
_GOOGLE: Final[list[dict[str, Any]]] = [
    {"role": "user", "parts": [{"text": "Which?"}]},
    {
        "role": "model",
        "parts": [{"text": "hm", "thought": True}, {"functionCall": {"name": "look_up", "args": {"g": 1}}}],
    },
    {"role": "user", "parts": [{"functionResponse": {"name": "look_up", "response": {"result": "found"}}}]},
    {"role": "model", "parts": [{"executableCode": {"language": "PYTHON", "code": "1"}}]},
    {"role": "model", "parts": [{"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}, {"text": "BCL2."}]},
]
_RESPONSES: Final[list[dict[str, Any]]] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Which?"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "function_call", "call_id": "f1", "name": "look_up", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "f1", "output": "found"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is BCL2."}]},
]
_OURS: Final[list[dict[str, Any]]] = [
    {"role": "user", "content": "Which?"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "look_up", "arguments": {"g": 1}}]},
    {"role": "tool", "content": "found", "tool_call_id": "c1", "tool_name": "look_up"},
    {"role": "assistant", "content": "It is BCL2.", "reasoning": "hm"},
]
_EXCHANGES: Final[list[dict[str, Any]]] = [
    {"request": {"messages": _OPENAI[:2]}, "response": {"choices": [{"message": _OPENAI[2]}]}},
    {"request": {"messages": _OPENAI[:4]}, "response": {"choices": [{"message": _OPENAI[4]}]}},
]
_FORMATS: Final[list[Any]] = [_OPENAI, _ANTHROPIC, _GOOGLE, _RESPONSES, _OURS]
_ROWS: Final[list[Any]] = [
    [{"id": f"q{n}", "question": "Which?", "model": "m", "replicate": 1, "response": one}]
    for n, one in enumerate(["It is BCL2.", *_FORMATS], 1)
]
_SEEDS: Final = [
    *_ROWS,
    [row for rows in _ROWS for row in rows],
    [{"id": "q1", "replicates": ["one", _OURS, None]}, {"question": "Which?", "answer": "text"}],
    [{"id": "q1", "exchanges": _EXCHANGES}],
]
_MAPPINGS: Final[list[Any]] = [{"q1": "text", "q2": _OPENAI, "Which?": {"replicates": ["a", "b"]}}, _SEEDS[-3]]
_IDS: Final = ("q1", "q2", "q6", "")


def _many_calls(count: int) -> bytes:
    """Return a conversation with so many calls in one turn, whose results come in the opposite order."""
    names = [f"n{number}" for number in range(count)]
    calls = [{"functionCall": {"name": name}} for name in names]
    results = [{"functionResponse": {"name": name, "response": {}}} for name in reversed(names)]
    entries = [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]
    return dump_json(parse_tree({"q1": entries})).encode()


@contextmanager
def _opened(folder: Path) -> Iterator[Callable[[tuple[str, bytes]], bool]]:
    outside = str(folder.parent / "outside")
    count = 0
    spec = find_adapter(active_plugins(), "manual").spec

    async def answers(model: ModelConfig) -> bool:
        assert spec.llm is not None
        assert spec.agent is not None
        llm, agent = spec.llm(model), spec.agent(model)
        found = False
        for id in _IDS:
            info = CallInfo(question_id=id, question="Which?", replicate=1 + len(id) % 2)
            asked = [Message.user("Which?")]
            for call in (llm.invoke(asked, info=info), agent.run(asked, AgentOptions(), info=info)):
                try:
                    sound(await call)
                    found = True
                except PortError as error:
                    str(error).encode("utf-8")
            if spec.needs_agent is not None:
                spec.needs_agent(model)(info)
        return found

    def check(one: tuple[str, bytes]) -> bool:
        nonlocal count
        count += 1  # the adapter remembers files by name and time
        file = folder / f"answers{count}{one[0]}"
        file.write_bytes(insert_path(one[1], outside))
        model = ModelConfig(id="m", interface="manual", model_name="m", manual_traces=str(file))
        try:
            assert spec.check is not None
            spec.check(model)
        except AdapterConfigError as error:
            str(error).encode("utf-8")
            return False
        finally:
            kept = file.read_bytes()
        try:
            return asyncio.run(answers(model))
        finally:
            assert file.read_bytes() == kept
            file.unlink()

    yield check


KIND: Final = Kind(
    "recordings",
    st.one_of(
        st.tuples(st.just(".jsonl"), documents(_SEEDS, dump_lines)),
        st.tuples(st.just(".json"), documents([*_SEEDS, *_MAPPINGS], dump_json)),
    ),
    _opened,
    valid=[(".jsonl", dump_lines(parse_tree(one)).encode()) for one in _SEEDS],
    regressions=[(".json", _many_calls(16_000))],
    shown=lambda one: one[0].encode() + b"\n" + one[1],
)
