"""OpenAI Evals: records of `oaieval` runs, sample files, output items of runs on the platform, and registry files.

In a record, all events of a sample form one row. `samplings` and `matches` contain the data of these events in order,
`metrics` and `raw_sample` contain the data of the last such event, and `spec` describes the run. A file may contain
several runs. In a sample file, each line is a row with `input` and `ideal`. Output items are an API page, a list or
JSON lines, and each item is a row.

A registry file (`evals/registry/evals/NAME.yaml`) refers to sample files. These are searched for in the same folder and
in the `data` folder of the registry. `Includes` checks the response itself. For `Match`, `FuzzyMatch` and `JsonMatch`,
a judge extracts the value to compare. Criteria graded by a model become a trait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import BenchmarkFileError
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.promptfoo.assertions import convert
from karenina_importing.formats.promptfoo.files import YAML, Folder, NotRead, read_document
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow, read_lines

_EVENT: Final = {"run_id", "event_id", "type", "data"}
_LISTS: Final = {"sampling": "samplings", "match": "matches", "error": "errors"}
_ITEM: Final = {"datasource_item", "sample"}
_TRUTHS: Final = ("ground_truth", "correct_label", "ideal", "expected", "reference", "answer", "label")
"""Names that users choose for the correct answer in data source items."""


def _detect(head: FileHead) -> Fit:
    """Detect records, samples and output items of OpenAI Evals."""
    keys = head.record.keys()
    is_record = keys == {"spec"} or keys >= _EVENT or keys >= _ITEM
    return Fit.YES if is_record or keys >= {"input", "ideal"} or _items(head.document) else Fit.NO


def _items(document: Any) -> list[Any]:
    """Return the output items in an API page or a list, a single item as a list, or an empty list."""
    items = document
    if isinstance(document, Mapping):
        items = [document] if document.keys() >= _ITEM else document.get("data")
    if not isinstance(items, list):
        return []
    return items if all(isinstance(item, Mapping) and item.keys() >= _ITEM for item in items) else []


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each output item, or for each sample in a run. All events of a sample in a run form one row."""
    items = _items(FileHead(path).document)
    if items:
        yield from (SourceRow(f"item {number}", item) for number, item in enumerate(items, 1))
        return
    spec: Any = None
    samples: dict[tuple[str, str], dict[str, Any]] = {}
    places: dict[tuple[str, str], str] = {}
    for row in read_lines(path):
        values = row.values
        if row.problem:
            yield row
        elif "spec" in values:
            spec = values["spec"]
        elif values.keys() >= _EVENT:
            id = str(values.get("sample_id"))
            key = str(values["run_id"]), id
            places.setdefault(key, row.place)
            _add_event(samples.setdefault(key, {"sample_id": id, "spec": spec}), values)
        elif "final_report" not in values:
            yield row
    for key, sample in samples.items():
        yield SourceRow(places[key], sample)


def _add_event(sample: dict[str, Any], event: Mapping[str, Any]) -> None:
    """Add an event's data to its sample. Samplings, matches and errors are collected in lists; of any other type, only
    the last event is kept.
    """
    kind, data = str(event["type"]), event["data"]
    if kind in _LISTS:
        sample.setdefault(_LISTS[kind], []).append(data)
    else:
        sample[kind] = data


OPENAI_EVALS: Final = make_import_format(
    "openai-evals",
    "an OpenAI Evals run or samples",
    _detect,
    _rows,
    FieldMapping(
        paths={
            "question": ("sample.input", "samplings.0.prompt", "raw_sample.input", "matches.0.prompt", "input"),
            "raw_answer": (
                *("ideal", "matches.0.expected", "raw_sample.ideal"),
                *(f"datasource_item.{name}" for name in _TRUTHS),
            ),
            "id": ("sample_id", "item-{datasource_item_id}"),
            "response": ("samplings.0.sampled", "matches.0.sampled", "sample.output.-1.content"),
            "finish_reason": ("sample.finish_reason",),
            "model": ("spec.completion_fns.0", "sample.model"),
            "error": ("errors.0.message", "sample.error.message"),
        }
    ),
)
"""The format of OpenAI Evals. In a graded sample, the first sampling is the answer, and all others are the grader's."""

_CLASS: Final = "evals.elsuite."
_COMPARING: Final = ("Match", "FuzzyMatch", "JsonMatch", "MatchWithSolvers")
_GRADED: Final = {"fact": "factuality", "closedqa": "model-graded-closedqa"}


def _detect_registry(head: FileHead) -> Fit:
    """Return `Fit.YES` for YAML files that contain an eval with an OpenAI Evals class, else `Fit.NO`."""
    if head.path.suffix.lower() not in YAML:
        return Fit.NO
    text = head.text()
    return Fit.YES if f"class: {_CLASS}" in text or f'class: "{_CLASS}' in text else Fit.NO


def _registry_rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of the sample files that a registry file refers to. If several evals share a file, it is only
    imported for the first. Raises `BenchmarkFileError` if there is no eval, or if a sample file is missing.
    """
    registry = read_document(path).value
    evals = {
        str(name): entry
        for name, entry in (registry.items() if isinstance(registry, Mapping) else ())
        if isinstance(entry, Mapping) and str(entry.get("class", "")).startswith(_CLASS)
    }
    if not evals:
        raise BenchmarkFileError(
            path,
            "",
            "the file contains no eval whose `class` is an OpenAI Evals class",
            "choose another format with --from",
        )
    first: dict[Path, tuple[str, Mapping[str, Any]]] = {}
    notes: dict[Path, list[str]] = {}
    for name, entry in evals.items():
        file = _find_samples(path, name, _arguments(entry))
        if file in first:
            what = f"{name} was not carried over because it uses the same samples as {first[file][0]}"
            notes.setdefault(file, []).append(f"{what}; to import {name}, remove {first[file][0]} from the file")
        else:
            first[file] = name, entry
    for file, (name, entry) in first.items():
        kind = str(entry["class"]).rpartition(":")[2]
        for row in read_lines(file):
            place = f"{name}, {row.place}"
            converted = _registry_row(place, row.values, kind, _arguments(entry)) if not row.problem else None
            yield (
                SourceRow(place, {}, row.problem)
                if converted is None
                else replace(converted, notes=notes.get(file, []))
            )


def _arguments(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of an eval, or an empty mapping."""
    arguments = entry.get("args")
    return arguments if isinstance(arguments, Mapping) else {}


def _find_samples(path: Path, name: str, arguments: Mapping[str, Any]) -> Path:
    """Return the file that `samples_jsonl` names in the `arguments` of an eval. It is in the folder of the registry
    file `path`, or in `data` next to or above it. Raises `BenchmarkFileError` if no file is named, or if it is missing.
    """
    file_name = arguments.get("samples_jsonl")
    if not isinstance(file_name, str):
        what = "the eval does not name a sample file (`samples_jsonl`) because a program generates its samples"
        raise BenchmarkFileError(path, name, what, "run the eval with `oaieval` and import the record file")
    problem = ""
    for folder in (path.parent, path.parent.parent / "data", path.parent / "data"):
        try:
            (file,) = Folder(folder).find(file_name)
        except (NotRead, ValueError) as error:
            problem = problem or str(error)
            continue
        return file
    raise BenchmarkFileError(path, f"{name}, samples_jsonl", problem, "copy the sample file next to the registry file")


def _registry_row(place: str, sample: Mapping[str, Any], kind: str, arguments: Mapping[str, Any]) -> SourceRow:
    """Make the row for a sample of an eval of class `kind`. How the eval grades becomes a field or a trait, or is
    listed as left out. If the sample has no `ideal`, the row has a problem, unless the eval is graded by the spec
    `closedqa`.
    """
    ideal = sample.get("ideal")
    assertion: dict[str, Any] | None = None
    left_out: list[str] = []
    spec = str(arguments.get("modelgraded_spec", ""))
    if ideal in (None, "", []) and spec != "closedqa":
        return SourceRow(place, {}, "the sample has no `ideal`")
    if kind == "Includes":
        several = ideal if isinstance(ideal, list) else [ideal]
        ignores = arguments.get("ignore_case") is True
        assertion = {"type": "icontains-any" if ignores else "contains-any", "value": [str(text) for text in several]}
    elif spec in _GRADED:
        value = sample.get("criteria") if spec == "closedqa" else ideal
        assertion = {"type": _GRADED[spec], "value": value}
    elif spec:
        left_out.append(f"grading by the spec {spec:.60}")
    elif kind not in _COMPARING:
        left_out.append(f"eval of the class {kind:.60}")
    left_out += ["few-shot examples"] if arguments.get("num_few_shot") else []
    done = convert([assertion] if assertion else [], {}, rendered=lambda asserted: asserted.get("value"))
    metadata = {
        key: value for key, value in sample.items() if key not in ("input", "ideal") and value not in (None, "")
    }
    question = {**done.question, **({"metadata": metadata} if metadata else {})}
    return SourceRow(place, sample, question=question, left_out=[*left_out, *done.left_out])


EVALS_REGISTRY: Final = make_import_format(
    "openai-evals-registry",
    "an eval in the OpenAI Evals registry",
    _detect_registry,
    _registry_rows,
    FieldMapping(paths={"question": ("input",), "raw_answer": ("ideal",), "choices": ("choices",)}),
)
"""Evals in the OpenAI Evals registry."""
