"""DeepEval goldens, test cases and test runs, and ragas samples, in JSON or JSON lines.

DeepEval's goldens and test cases have `input`, `expected_output` and `actual_output`, in snake or camel case; a test
run has them in `testCases`. ragas samples have `user_input`, `reference` and `response`. Retrieved contexts become
metadata, because the model under test only gets the input. Criteria that are written out become traits; metric scores
are not carried over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.tables.message_texts import is_conversation
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.structured_values import as_messages, as_metadata, make_recording, objects, read_objects
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow

_RUN: Final = ("testCases", "conversationalTestCases")
_LISTS: Final = (*_RUN, "test_cases", "goldens", "samples")
_GOLDEN: Final = frozenset(
    {"expected_output", "actual_output", "retrieval_context", "expected_tools", "tools_called", "additional_metadata"}
)
_CONVERSATION: Final = frozenset({"turns", "scenario", "expected_outcome"})
_SAMPLE: Final = frozenset({"reference", "response", "retrieved_contexts", "reference_contexts", "rubrics"})
_KNOWN_SAMPLE: Final = frozenset(
    {"user_input", "synthesizer_name", "persona_name", "query_style", "query_length", "id"}
)
_CAMEL: Final = re.compile(r"(?<=[a-z])([A-Z])")
_METADATA: Final = ("context", "retrieval_context", "additional_metadata", "comments", "source_file", "name")
_SCALE: Final = re.compile(r"score([0-9]{1,2})_description")
_JOIN: Final = (
    "the retrieved contexts are metadata, and not part of the question; to join them, add "
    "--map 'question={retrieved_contexts}\\n\\n{user_input}'"
)
_OUTCOME: Final = "The conversation ends with this outcome: {}"


def _detect(head: FileHead) -> Fit:
    document = head.document
    if isinstance(document, Mapping) and any(isinstance(document.get(key), list) for key in _RUN):
        return Fit.YES
    found = [_snake(one) for one in objects(head, *_LISTS) if isinstance(one, Mapping)]
    return Fit.YES if found and all(map(_is_case, found)) else Fit.NO


def _is_case(one: Mapping[str, Any]) -> bool:
    keys = one.keys()
    is_sample = "user_input" in keys and bool(keys & _SAMPLE)
    return is_sample or ("input" in keys and bool(keys & _GOLDEN)) or len(keys & _CONVERSATION) >= 2


def _snake(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the keys converted to snake case."""
    return {_CAMEL.sub(lambda match: f"_{match[1].lower()}", str(key)): value for key, value in one.items()}


def _rows(path: Path) -> Iterator[SourceRow]:
    document = FileHead(path).document
    about = document if isinstance(document, Mapping) else {}
    keys = [key for key in _RUN if isinstance(about.get(key), list)]
    model = _model(about)
    named: list[tuple[str, ...]] = [(key,) for key in keys]
    for lists in named or [_LISTS]:
        for row in read_objects(path, *lists):
            yield row if row.problem else _row(row.place, _snake(row.values), model)


def _model(run: Mapping[str, Any]) -> str | None:
    found = run.get("hyperparameters")
    model = found.get("model") if isinstance(found, Mapping) else None
    return model if isinstance(model, str) else None


def _row(place: str, one: dict[str, Any], model: str | None) -> SourceRow:
    left_out = [f"metric {metric['name']!s:.60}" for metric in _list(one.get("metrics_data")) if "name" in metric]
    if "user_input" in one:
        return _sample(place, one)
    if "input" not in one and _CONVERSATION & one.keys():
        return _conversation(place, one, model, left_out)
    question = as_metadata({key: one.get(key) for key in _METADATA})
    question |= {"keywords": one["tags"]} if _is_texts(one.get("tags")) else {}
    for name in ("expected_tools", "images_mapping"):
        left_out += [name.replace("_", " ")] if one.get(name) else []
    recordings = None
    if one.get("actual_output") is not None:
        response = _with_tools(one["actual_output"], one.get("tools_called"))
        recordings = [make_recording(response, model)]
    return SourceRow(place, one, question=question, recordings=recordings, left_out=left_out)


def _with_tools(output: Any, tools: Any) -> Any:
    """Return an answer as a conversation with the tool calls that led to it; unchanged if there are none."""
    calls = [one for one in _list(tools) if isinstance(one.get("name"), str)]
    if not calls or not isinstance(output, str):
        return output
    messages: list[dict[str, Any]] = []
    for number, call in enumerate(map(_snake, calls), 1):
        arguments = json.dumps(call.get("input_parameters") or {}, ensure_ascii=False)
        function = {"name": call["name"], "arguments": arguments}
        made = {"id": f"call_{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [made]})
        result = call.get("output")
        shown = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        messages.append({"role": "tool", "tool_call_id": made["id"], "content": "" if result is None else shown})
    return [*messages, {"role": "assistant", "content": output}]


def _conversation(place: str, one: Mapping[str, Any], model: str | None, left_out: Sequence[str]) -> SourceRow:
    turns = as_messages(one.get("turns"))
    if not is_conversation(turns):
        what = "the conversation of this golden has not been simulated yet; import a test run, which has the turns"
        return SourceRow(place, {}, what)
    messages = [{"role": turn["role"], "content": turn["content"]} for turn in turns]
    first = next((turn["content"] for turn in messages if turn["role"] == "user"), None)
    asked = one.get("scenario") or first
    outcome = one.get("expected_outcome")
    traits = [{"type": "llm", "name": "outcome", "description": _OUTCOME.format(outcome)}] if outcome else []
    kept = ("user_description", "chatbot_role", "context", "comments", "additional_metadata", "name")
    question = {**as_metadata({key: one.get(key) for key in kept}), **({"rubric": traits} if traits else {})}
    answers = messages[-1]["role"] == "assistant"
    recordings = [make_recording(messages, model)] if answers else []
    return SourceRow(place, {**one, "input": asked}, question=question, recordings=recordings, left_out=left_out)


def _sample(place: str, one: Mapping[str, Any]) -> SourceRow:
    """Return the row for a ragas sample."""
    known = _SAMPLE | _KNOWN_SAMPLE | {"reference_tool_calls", "reference_topics"}
    left_out = [name.replace("_", " ") for name in ("reference_tool_calls", "reference_topics") if one.get(name)]
    left_out += [f"metric {name!s:.60}" for name, value in one.items() if name not in known and _is_score(value)]
    kept = {key: one.get(key) for key in ("retrieved_contexts", "reference_contexts", "persona_name", "query_style")}
    question = as_metadata({**kept, **{k: v for k, v in one.items() if k not in known and not _is_score(v)}})
    trait = _scale(one.get("rubrics"))
    question |= {"rubric": [trait]} if trait else {}
    values: dict[str, Any] = {**one, "input": one["user_input"], "expected_output": one.get("reference")}
    recordings = [make_recording(one["response"])] if one.get("response") not in (None, "") else None
    turns = one["user_input"]
    if isinstance(turns, list) and turns and all(isinstance(turn, Mapping) and "content" in turn for turn in turns):
        human = [turn["content"] for turn in turns if turn.get("type", turn.get("role")) in ("human", "user")]
        values["input"] = human[0] if human else None
        if turns[-1].get("type", turns[-1].get("role")) in ("ai", "assistant"):
            recordings = [make_recording([_message(turn) for turn in turns])]
    notes = [_JOIN] if one.get("retrieved_contexts") else []
    return SourceRow(place, values, question=question, recordings=recordings, left_out=left_out, notes=notes)


_ROLES: Final = {"human": "user", "ai": "assistant", "tool": "tool"}


def _message(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ragas message as a chat-completions message."""
    role = str(turn.get("type", turn.get("role")))
    found: dict[str, Any] = {"role": _ROLES.get(role, role), "content": turn["content"]}
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": str(call.get("name")), "arguments": json.dumps(call.get("args") or {}, default=str)},
        }
        for number, call in enumerate(_list(turn.get("tool_calls")), 1)
    ]
    return {**found, "tool_calls": calls} if calls else found


def _scale(rubrics: Any) -> dict[str, Any] | None:
    """Return the trait for a ragas rubric, with keys such as `score1_description`; None for any other value."""
    found = {
        int(match[1]): text
        for key, text in (rubrics.items() if isinstance(rubrics, Mapping) else ())
        if (match := _SCALE.fullmatch(str(key))) is not None and isinstance(text, str)
    }
    if len(found) < 2:
        return None
    lines = "\n".join(f"{score}: {text}" for score, text in sorted(found.items()))
    scale = {"kind": "score", "min_score": min(found), "max_score": max(found)}
    return {"type": "llm", "name": "rubric", "description": f"The score whose description fits best.\n{lines}", **scale}


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


DEEPEVAL: Final = make_import_format(
    "deepeval",
    "DeepEval goldens or a DeepEval test run, or ragas samples",
    _detect,
    _rows,
    FieldMapping(paths={"question": ("input",), "raw_answer": ("expected_output",), "id": ("id",)}),
)
"""DeepEval goldens and test runs, and ragas samples."""
