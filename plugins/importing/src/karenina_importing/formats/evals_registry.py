"""OpenAI Evals registry files (`evals/registry/evals/NAME.yaml`), with the sample files that they name.

Sample files are searched for next to the registry file, and in the folder `data` of the registry. `Includes` checks the
response itself; for `Match`, `FuzzyMatch` and `JsonMatch`, a judge extracts the value to compare; what a model grades
becomes a trait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import BenchmarkFileError
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.lm_eval_tasks import check_not_pointer
from karenina_importing.formats.promptfoo.assertions import convert
from karenina_importing.formats.promptfoo.files import YAML, Folder, NotRead, read_document
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow, bounded, read_lines
from karenina_toolkit.files import bounded_files

_CLASS: Final = "evals.elsuite."
_HEAD: Final = 1 << 16
_COMPARING: Final = ("Match", "FuzzyMatch", "JsonMatch", "MatchWithSolvers")
_GRADED: Final = {"fact": "factuality", "closedqa": "model-graded-closedqa"}


def _detect(head: FileHead) -> Fit:
    if head.path.suffix.lower() not in YAML:
        return Fit.NO
    with bounded(head.path), bounded_files.open_file(head.path) as file:
        text = (file.read(_HEAD) or b"").decode("utf-8", "replace")
    return Fit.YES if f"class: {_CLASS}" in text or f'class: "{_CLASS}' in text else Fit.NO


def _rows(path: Path) -> Iterator[SourceRow]:
    found = read_document(path).value
    evals = {
        str(name): one
        for name, one in (found.items() if isinstance(found, Mapping) else ())
        if isinstance(one, Mapping) and str(one.get("class", "")).startswith(_CLASS)
    }
    if not evals:
        raise BenchmarkFileError(path, "", "it has no eval with a `class` of OpenAI Evals", "choose another --from")
    first: dict[Path, tuple[str, Mapping[str, Any]]] = {}
    notes: dict[Path, list[str]] = {}
    for name, one in evals.items():
        file = _find(path, name, _arguments(one))
        if file in first:
            what = f"{name} uses the same samples as {first[file][0]}, and is not carried over"
            notes.setdefault(file, []).append(f"{what}: remove {first[file][0]} from the file to import it")
        else:
            first[file] = name, one
    for file, (name, one) in first.items():
        kind = str(one["class"]).rpartition(":")[2]
        for row in read_lines(file):
            place = f"{name}, {row.place}"
            found = _row(place, row.values, kind, _arguments(one)) if not row.problem else None
            yield SourceRow(place, {}, row.problem) if found is None else replace(found, notes=notes.get(file, []))


def _arguments(one: Mapping[str, Any]) -> Mapping[str, Any]:
    found = one.get("args")
    return found if isinstance(found, Mapping) else {}


def _find(path: Path, name: str, arguments: Mapping[str, Any]) -> Path:
    """Return an eval's sample file. Raises `BenchmarkFileError`."""
    given = arguments.get("samples_jsonl")
    if not isinstance(given, str):
        what = "the eval names no sample file (`samples_jsonl`); a program makes the samples"
        raise BenchmarkFileError(path, name, what, "run the eval with oaieval, and import the record")
    problem = ""
    for folder in (path.parent, path.parent.parent / "data", path.parent / "data"):
        try:
            (file,) = Folder(folder).find(given)
        except (NotRead, ValueError) as error:
            problem = problem or str(error)
            continue
        check_not_pointer(file)
        return file
    raise BenchmarkFileError(path, f"{name}, samples_jsonl", problem, "copy it next to the registry file")


def _row(place: str, sample: Mapping[str, Any], kind: str, arguments: Mapping[str, Any]) -> SourceRow:
    ideal = sample.get("ideal")
    assertion: dict[str, Any] | None = None
    left_out: list[str] = []
    spec = str(arguments.get("modelgraded_spec", ""))
    if ideal in (None, "", []) and spec != "closedqa":
        return SourceRow(place, {}, "the sample has no `ideal`")
    if kind == "Includes":
        several = ideal if isinstance(ideal, list) else [ideal]
        ignores = arguments.get("ignore_case") is True
        assertion = {"type": "icontains-any" if ignores else "contains-any", "value": [str(one) for one in several]}
    elif spec in _GRADED:
        value = sample.get("criteria") if spec == "closedqa" else ideal
        assertion = {"type": _GRADED[spec], "value": value}
    elif spec:
        left_out.append(f"grading by the spec {spec:.60}")
    elif kind not in _COMPARING:
        left_out.append(f"eval of the class {kind:.60}")
    left_out += ["few-shot examples"] if arguments.get("num_few_shot") else []
    done = convert([assertion] if assertion else [], {}, rendered=lambda one: one.get("value"))
    kept = {key: value for key, value in sample.items() if key not in ("input", "ideal") and value not in (None, "")}
    question = {**done.question, **({"metadata": kept} if kept else {})}
    return SourceRow(place, sample, question=question, left_out=[*left_out, *done.left_out])


EVALS_REGISTRY: Final = make_import_format(
    "openai-evals-registry",
    "an eval in the OpenAI Evals registry",
    _detect,
    _rows,
    FieldMapping(paths={"question": ("input",), "raw_answer": ("ideal",), "choices": ("choices",)}),
)
"""Evals in the OpenAI Evals registry."""
