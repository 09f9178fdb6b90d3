"""pydantic-evals: datasets in YAML or JSON (`Dataset.to_file`), and reports in JSON.

Each case is a row. The evaluators of the case and of the whole dataset become fields and traits. For `EqualsExpected`
and `Equals`, a judge extracts the value to compare. `Contains` checks the response itself. `LLMJudge` and `GEval`
become traits. Evaluators for types, times and spans, and users' own evaluators, are only counted as left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import BenchmarkFileError
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.promptfoo.assertions import convert
from karenina_importing.formats.promptfoo.files import YAML, read_document
from karenina_importing.formats.structured_values import as_metadata, asked, make_recording
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow

_CASES: Final = re.compile(r"^cases[ \t]*:", re.MULTILINE)
_INPUTS: Final = re.compile(r"^[ \t-]+inputs[ \t]*:", re.MULTILINE)
_ARGUMENT: Final = {"Equals": "value", "Contains": "value", "LLMJudge": "rubric", "GEval": "criteria"}
"""The name of the argument that each evaluator takes by position."""
_NAME: Final = re.compile(r"[^\W\d]\w*", re.ASCII)
_TYPES: Final = {str: "str", bool: "bool", int: "int", float: "float"}


def _detect(head: FileHead) -> Fit:
    """Return `Fit.YES` if a file has a list of cases with inputs, else `Fit.NO`."""
    if head.path.suffix.lower() in YAML:
        text = head.text()
        return Fit.YES if _CASES.search(text) and _INPUTS.search(text) else Fit.NO
    cases = head.document.get("cases") if isinstance(head.document, Mapping) else None
    fits = isinstance(cases, list) and cases and all(isinstance(case, Mapping) and "inputs" in case for case in cases)
    return Fit.YES if fits else Fit.NO


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each case and failure. Raises `BenchmarkFileError` if there is no list of cases."""
    document = read_document(path).value
    cases = document.get("cases") if isinstance(document, Mapping) else None
    if not isinstance(cases, list):
        raise BenchmarkFileError(
            path,
            "",
            "the file has no `cases` list, so it is not a pydantic-evals file",
            "choose another format with --from",
        )
    shared = document.get("evaluators")
    notes = ["the report evaluators of the dataset are not carried over"] if document.get("report_evaluators") else []
    for number, case in enumerate(cases, 1):
        yield _row(f"case {number}", case, shared, notes)
    failures = document.get("failures")
    for number, case in enumerate(failures if isinstance(failures, list) else (), 1):
        yield _row(f"failure {number}", case, shared, notes)


def _row(place: str, case: Any, shared: Any, notes: list[str]) -> SourceRow:
    """Make the row for a case, with `notes` for the user. `shared` contains the evaluators for the whole dataset. The
    output of a case in a report is recorded as an answer. If the case has no inputs, the row has a problem.
    """
    if not isinstance(case, Mapping) or case.get("inputs") is None:
        return SourceRow(place, {}, "the case has no `inputs`")
    name = case.get("name")
    named = f"{place} ({name})" if name else place
    expected = case.get("expected_output")
    evaluators = [*_evaluators(shared), *_evaluators(case.get("evaluators"))]
    question, left_out = _convert(evaluators, expected)
    metadata = case.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else {"metadata": metadata}
    question = {**as_metadata({"name": name, **{str(key): value for key, value in fields.items()}}), **question}
    values = {**case, "question": asked(case["inputs"]), "expected": expected}
    if isinstance(expected, Mapping | list):
        values["expected"] = json.dumps(expected, ensure_ascii=False, default=str)
    recordings = None
    if case.get("error_message") is not None:  # a failure in a report
        values["failure"] = case["error_message"]
    elif "output" in case:  # a case in a report
        recordings = [make_recording(case["output"])] if case["output"] not in (None, "") else []
        left_out += [f"result {key!s:.60}" for key in ("scores", "labels", "assertions") if case.get(key)]
    return SourceRow(named, values, question=question, recordings=recordings, left_out=left_out, notes=notes)


def _evaluators(listed: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and arguments of each evaluator, with the name "without a name" if it cannot be read. An evaluator
    is written as a name, as `{name: arguments}`, or as an object with a key `name`.
    """
    for evaluator in listed if isinstance(listed, list) else ():
        if isinstance(evaluator, str):
            yield evaluator, {}
        elif isinstance(evaluator, Mapping) and isinstance(evaluator.get("name"), str):
            yield _with_arguments(evaluator["name"], evaluator.get("arguments"))
        elif isinstance(evaluator, Mapping) and len(evaluator) == 1:
            yield _with_arguments(*next(iter(evaluator.items())))
        else:
            yield "without a name", {}


def _with_arguments(name: Any, arguments: Any) -> tuple[str, dict[str, Any]]:
    """Return an evaluator's name, and its arguments by name. `arguments` may also be the only positional argument, or a
    list with it, which is given the name that it has for this evaluator.
    """
    argument = _ARGUMENT.get(str(name))
    names = {"value", "rubric", "criteria", "case_sensitive", "as_strings", "evaluation_name"}
    if isinstance(arguments, Mapping) and (argument is None or argument in arguments or names & arguments.keys()):
        return str(name), {str(key): value for key, value in arguments.items()}
    if argument is not None and arguments is not None:
        return str(name), {argument: arguments[0] if isinstance(arguments, list) and len(arguments) == 1 else arguments}
    return str(name), {}


def _convert(evaluators: list[tuple[str, dict[str, Any]]], expected: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the keys of a question made from the names and arguments of evaluators, and the evaluators that are left
    out. If `EqualsExpected` compares an object, each of its values becomes a field if possible.
    """
    assertions, left_out, fields = [], list[str](), dict[str, Any]()
    for name, arguments in evaluators:
        if name == "EqualsExpected" and isinstance(expected, Mapping):
            declared = _fields(expected)
            fields |= declared
            left_out += [f"field {key!s:.40} of EqualsExpected" for key in expected if key not in declared]
            continue
        assertion = _assertion(name, arguments, expected)
        if assertion is None:
            left_out.append(f"evaluator {name:.60}")
        else:
            assertions.append(assertion)
    done = convert(assertions, {}, rendered=lambda assertion: assertion.get("value"))
    question = done.question
    if fields and done.fields:
        free = {key if key not in fields else f"{key}_of_an_evaluator": field for key, field in done.fields.items()}
        question |= {"answer": {**fields, **free}}
        question.pop("strategy", None)
    elif fields:
        question["answer"] = fields
    return question, [*left_out, *done.left_out]


def _fields(expected: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field for each string, number or boolean in an expected object, by its key. Empty strings, and values
    whose keys are not valid names, are skipped.
    """
    return {
        str(key): {
            "type": _TYPES[type(value)],
            "description": f"The {str(key).replace('_', ' ')} that the response states",
            "ground_truth": value,
            **({"verify_with": "ExactMatch"} if isinstance(value, str) else {}),
        }
        for key, value in expected.items()
        if _NAME.fullmatch(str(key)) and type(value) in _TYPES and value != ""
    }


def _assertion(name: str, arguments: Mapping[str, Any], expected: Any) -> dict[str, Any] | None:
    """Convert the evaluator called `name`, with these arguments, to a promptfoo assertion, or return None if there is
    no equivalent. `expected` is the case's expected output.
    """
    label = arguments.get("evaluation_name")
    named = {"metric": label} if isinstance(label, str) and label else {}
    value = arguments.get(_ARGUMENT.get(name, "value"))
    if name == "EqualsExpected" and expected is not None and not isinstance(expected, list):
        return {"type": "equals", "value": expected, **named}
    if name == "Equals" and value is not None and not isinstance(value, Mapping | list):
        return {"type": "equals", "value": value, **named}
    if name == "Contains" and isinstance(value, str | int | float | list) and value not in ("", []):
        kind = "contains" if arguments.get("case_sensitive", True) else "icontains"
        return {"type": f"{kind}-all" if isinstance(value, list) else kind, "value": value, **named}
    if name == "LLMJudge" and isinstance(value, str) and value.strip():
        shown = json.dumps(expected, ensure_ascii=False, default=str) if not isinstance(expected, str) else expected
        with_expected = arguments.get("include_expected_output") is True and expected is not None
        return {"type": "llm-rubric", "value": f"{value}\nExpected: {shown}" if with_expected else value, **named}
    if name == "GEval" and isinstance(value, str) and value.strip():
        return {"type": "llm-rubric", "value": value, **named}
    return None


PYDANTIC_EVALS: Final = make_import_format(
    "pydantic-evals",
    "a pydantic-evals dataset or report",
    _detect,
    _rows,
    FieldMapping(paths={"question": ("question",), "raw_answer": ("expected",), "error": ("failure",)}),
)
"""pydantic-evals datasets and reports."""
