"""DeepEval goldens, test cases and test runs, and ragas samples, in JSON or JSON lines.

DeepEval's goldens and test cases have `input`, `expected_output` and `actual_output`, in snake or camel case. Test runs
contain them in `testCases`. ragas samples have `user_input`, `reference` and `response`. Retrieved contexts become
metadata, because the model under test only gets the input. Written criteria become traits. Metric scores are not
imported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.tables.message_texts import is_conversation
from karenina_benchmark.tables.table_reader import has_columns
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
    "the retrieved contexts are imported as metadata, not as part of the question; to put them "
    "before the question, add --map 'question={retrieved_contexts}\\n\\n{user_input}'"
)
_OUTCOME: Final = "The conversation ends with this outcome: {}"


def _detect(head: FileHead) -> Fit:
    """Return `Fit.YES` for DeepEval runs, and for files of only goldens, test cases or ragas samples, else `Fit.NO`."""
    document = head.document
    if isinstance(document, Mapping) and any(isinstance(document.get(key), list) for key in _RUN):
        return Fit.YES
    if has_columns(document):
        return Fit.NO
    cases = [_snake(case) for case in objects(head, *_LISTS) if isinstance(case, Mapping)]
    return Fit.YES if cases and all(map(_is_case, cases)) else Fit.NO


def _is_case(item: Mapping[str, Any]) -> bool:
    """Return whether an object with keys in snake case is a golden, a test case or a ragas sample."""
    keys = item.keys()
    is_sample = "user_input" in keys and bool(keys & _SAMPLE)
    return is_sample or ("input" in keys and bool(keys & _GOLDEN)) or len(keys & _CONVERSATION) >= 2


def _snake(item: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the keys of an object to snake case, but not the keys of nested objects."""
    return {_CAMEL.sub(lambda match: f"_{match[1].lower()}", str(key)): value for key, value in item.items()}


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each case. Test runs have two lists of cases."""
    document = FileHead(path).document
    about = document if isinstance(document, Mapping) else {}
    keys = [key for key in _RUN if isinstance(about.get(key), list)]
    model = _model(about)
    named: list[tuple[str, ...]] = [(key,) for key in keys]
    for lists in named or [_LISTS]:
        for row in read_objects(path, *lists):
            yield row if row.problem else _row(row.place, _snake(row.values), model)


def _model(run: Mapping[str, Any]) -> str | None:
    parameters = run.get("hyperparameters")
    model = parameters.get("model") if isinstance(parameters, Mapping) else None
    return model if isinstance(model, str) else None


def _row(place: str, case: dict[str, Any], model: str | None) -> SourceRow:
    """Make the row for a test case, sample or conversation, whose keys are in snake case. The output of a test case is
    recorded together with the preceding tool calls, as an answer of `model`, which a ragas sample does not use. Metric
    scores are omitted and listed as left out.
    """
    left_out = [f"metric {metric['name']!s:.60}" for metric in _objects(case.get("metrics_data")) if "name" in metric]
    if "user_input" in case:
        return _sample(place, case)
    if "input" not in case and _CONVERSATION & case.keys():
        return _conversation(place, case, model, left_out)
    question = as_metadata({key: case.get(key) for key in _METADATA})
    question |= {"keywords": case["tags"]} if _is_texts(case.get("tags")) else {}
    for name in ("expected_tools", "images_mapping"):
        left_out += [name.replace("_", " ")] if case.get(name) else []
    recordings = None
    if case.get("actual_output") is not None:
        response = _with_tools(case["actual_output"], case.get("tools_called"))
        recordings = [make_recording(response, model)]
    return SourceRow(place, case, question=question, recordings=recordings, left_out=left_out)


def _with_tools(output: Any, tools: Any) -> Any:
    """Turn an answer into a conversation that starts with its tool calls. If there are no calls, or if the answer is
    not a string, it is returned unchanged.
    """
    calls = [tool for tool in _objects(tools) if isinstance(tool.get("name"), str)]
    if not calls or not isinstance(output, str):
        return output
    messages: list[dict[str, Any]] = []
    for number, call in enumerate(map(_snake, calls), 1):
        arguments = json.dumps(call.get("input_parameters") or {}, ensure_ascii=False)
        function = {"name": call["name"], "arguments": arguments}
        tool_call = {"id": f"call_{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [tool_call]})
        result = call.get("output")
        shown = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        messages.append({"role": "tool", "tool_call_id": tool_call["id"], "content": "" if result is None else shown})
    return [*messages, {"role": "assistant", "content": output}]


def _conversation(place: str, case: Mapping[str, Any], model: str | None, left_out: Sequence[str]) -> SourceRow:
    """Make the row for a multi-turn case. Its question is the scenario, or else the first user message. The
    conversation is only recorded if it ends with an answer. A golden that was not simulated has no turns, so its row
    has a problem.
    """
    turns = as_messages(case.get("turns"))
    if not is_conversation(turns):
        what = (
            "the conversation for this golden has not been simulated yet; import a test run, which contains the turns"
        )
        return SourceRow(place, {}, what)
    messages = [{"role": turn["role"], "content": turn["content"]} for turn in turns]
    first = next((turn["content"] for turn in messages if turn["role"] == "user"), None)
    asked = case.get("scenario") or first
    outcome = case.get("expected_outcome")
    traits = [{"type": "llm", "name": "outcome", "description": _OUTCOME.format(outcome)}] if outcome else []
    keys = ("user_description", "chatbot_role", "context", "comments", "additional_metadata", "name")
    question = {**as_metadata({key: case.get(key) for key in keys}), **({"rubric": traits} if traits else {})}
    answers = messages[-1]["role"] == "assistant"
    recordings = [make_recording(messages, model)] if answers else []
    return SourceRow(place, {**case, "input": asked}, question=question, recordings=recordings, left_out=left_out)


def _sample(place: str, sample: Mapping[str, Any]) -> SourceRow:
    """Make the row for a ragas sample, with its response as the recorded answer. For a multi-turn sample, the question
    is the first user message, and the conversation is recorded if it ends with an answer.
    """
    handled = _SAMPLE | _KNOWN_SAMPLE | {"reference_tool_calls", "reference_topics"}
    left_out = [name.replace("_", " ") for name in ("reference_tool_calls", "reference_topics") if sample.get(name)]
    left_out += [f"metric {name!s:.60}" for name, value in sample.items() if name not in handled and _is_score(value)]
    metadata = {
        key: sample.get(key) for key in ("retrieved_contexts", "reference_contexts", "persona_name", "query_style")
    }
    question = as_metadata({**metadata, **{k: v for k, v in sample.items() if k not in handled and not _is_score(v)}})
    trait = _scale(sample.get("rubrics"))
    question |= {"rubric": [trait]} if trait else {}
    values: dict[str, Any] = {**sample, "input": sample["user_input"], "expected_output": sample.get("reference")}
    recordings = [make_recording(sample["response"])] if sample.get("response") not in (None, "") else None
    turns = sample["user_input"]
    if isinstance(turns, list) and turns and all(isinstance(turn, Mapping) and "content" in turn for turn in turns):
        human = [turn["content"] for turn in turns if turn.get("type", turn.get("role")) in ("human", "user")]
        values["input"] = human[0] if human else None
        if turns[-1].get("type", turns[-1].get("role")) in ("ai", "assistant"):
            recordings = [make_recording([_message(turn) for turn in turns])]
    notes = [_JOIN] if sample.get("retrieved_contexts") else []
    return SourceRow(place, values, question=question, recordings=recordings, left_out=left_out, notes=notes)


_ROLES: Final = {"human": "user", "ai": "assistant", "tool": "tool"}


def _message(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a ragas message to a chat-completions message. Tool calls get new ids, `call_1` and so on."""
    role = str(turn.get("type", turn.get("role")))
    message: dict[str, Any] = {"role": _ROLES.get(role, role), "content": turn["content"]}
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": str(call.get("name")), "arguments": json.dumps(call.get("args") or {}, default=str)},
        }
        for number, call in enumerate(_objects(turn.get("tool_calls")), 1)
    ]
    return {**message, "tool_calls": calls} if calls else message


def _scale(rubrics: Any) -> dict[str, Any] | None:
    """Make the trait for a ragas rubric, which has at least two keys such as `score1_description`. Returns None for any
    other value.
    """
    levels = {
        int(match[1]): text
        for key, text in (rubrics.items() if isinstance(rubrics, Mapping) else ())
        if (match := _SCALE.fullmatch(str(key))) is not None and isinstance(text, str)
    }
    if len(levels) < 2:
        return None
    lines = "\n".join(f"{score}: {text}" for score, text in sorted(levels.items()))
    scale = {"kind": "score", "min_score": min(levels), "max_score": max(levels)}
    return {"type": "llm", "name": "rubric", "description": f"The score whose description fits best.\n{lines}", **scale}


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list, or an empty list for any other value."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


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
