"""lm-evaluation-harness tasks, which are YAML files that refer to a local file with documents.

`doc_to_text`, `doc_to_target` and `doc_to_choice` are filled in for each document if they are columns or plain
variables. Jinja statements and Python functions are not executed. For a task based on a Hugging Face dataset, the error
message contains the command that imports the dataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Final

from karenina_benchmark.errors import BenchmarkFileError, read_text
from karenina_benchmark.yaml_files import read as read_yaml
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.promptfoo.files import YAML, Folder, NotRead
from karenina_importing.formats.promptfoo.templates import NotFilled, fill
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow
from karenina_toolkit.files import LINES, TABLES

_KEYS: Final = re.compile(
    r"""^["']?(task|dataset_path|doc_to_text|doc_to_target|output_type|include)["']?[ \t]*:""", re.MULTILINE
)
_TAGGED: Final = re.compile(
    r"(?<=[:,\[-])([ \t]*)(!(?:function|include)[ \t]+[\w./-]+)(?=[ \t]*(?:[,}\]]|#|$))", re.MULTILINE
)
"""Matches a value with a tag such as `!function utils.load`, which is kept as a string."""
_TAG: Final = re.compile(r"!(function|include)[ \t]+(.+)")
_LOCAL: Final = ("json", "csv", "parquet", "text", "arrow", "pandas")
_SPLITS: Final = ("test_split", "validation_split", "fewshot_split", "training_split")
_STRIP: Final = re.compile(r"\.(?:strip|rstrip|lstrip)\(\s*\)(?=\s*[}|])")
_MOST_INCLUDED: Final = 5
_RUN_IT: Final = "run the task with --log_samples and import the samples"


def _detect(head: FileHead) -> Fit:
    """Return `Fit.YES` if the start of a YAML file has the key `task` and another key of tasks, else `Fit.NO`."""
    if head.path.suffix.lower() not in YAML:
        return Fit.NO
    keys = set(_KEYS.findall(head.text()))
    return Fit.YES if "task" in keys and len(keys) > 1 else Fit.NO


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each document of a task. Raises `BenchmarkFileError` if the documents cannot be read."""
    folder = Folder(path.parent)
    task = _read_task(path, folder)
    for file in _files(task, path, folder):
        notes = _notes(task)
        for place, document in folder.rows(file):
            yield _row(f"{file.name}, {place}", document, task, notes)


def _read_task(path: Path, folder: Folder, depth: int = 0) -> dict[str, Any]:
    """Read a task and the tasks that it includes. The task's own keys override included ones. `depth` is the number of
    nested includes so far. Raises `BenchmarkFileError` if a file is not a task, or if an included file is missing or
    nested too deeply.
    """
    task = read_yaml(_TAGGED.sub(r'\1"\2"', read_text(path)), path).value
    if not isinstance(task, Mapping):
        raise BenchmarkFileError(
            path, "", "the file is not an lm-evaluation-harness task", "choose another format with --from"
        )
    included = task.get("include")
    base: dict[str, Any] = {}
    for name in included if isinstance(included, list) else [included] if included else []:
        if depth >= _MOST_INCLUDED:
            raise BenchmarkFileError(
                path, "include", f"includes are nested more than {_MOST_INCLUDED} levels deep", "remove `include`"
            )
        try:
            (file,) = folder.find(str(name))
        except (NotRead, ValueError) as error:
            raise BenchmarkFileError(path, "include", str(error), "copy the file next to the task") from error
        base |= _read_task(file, folder, depth + 1)
    return {**base, **task}


def _files(task: Mapping[str, Any], path: Path, folder: Folder) -> list[Path]:
    """Return the files with a task's documents, preferably those of the test split. Raises `BenchmarkFileError` if they
    are not local files in the task's folder.
    """
    name, arguments = task.get("dataset_path"), task.get("dataset_kwargs")
    for key in ("custom_dataset", "dataset_path", "dataset_kwargs"):
        _check_not_tagged(task.get(key), path, key)
    data_files = arguments.get("data_files") if isinstance(arguments, Mapping) else None
    if isinstance(name, str) and Path(name).suffix in (*LINES, *TABLES, ".json", ".parquet"):
        name, data_files = "json", name
    if name not in _LOCAL or data_files is None:
        subset = f" --subset {task['dataset_name']}" if task.get("dataset_name") else ""
        split = next((f" --split {task[key]}" for key in _SPLITS if task.get(key)), "")
        what = f"the task reads its documents from the Hugging Face dataset {name!s:.80}, not from a local file"
        raise BenchmarkFileError(
            path, "dataset_path", what, f"run `karenina import hf:{name}{subset}{split}` to import the dataset"
        )
    if isinstance(data_files, Mapping):
        split = next((str(task[key]) for key in _SPLITS if task.get(key) in data_files), next(iter(data_files), ""))
        data_files = data_files.get(split)
    paths: list[Path] = []
    _check_not_tagged(data_files, path, "dataset_kwargs.data_files")
    for data_file in data_files if isinstance(data_files, list) else [data_files]:
        _check_not_tagged(data_file, path, "dataset_kwargs.data_files")
        if "://" in str(data_file):
            raise BenchmarkFileError(
                path, "dataset_kwargs.data_files", "the value is a URL", "download the file and put it next to the task"
            )
        try:
            paths += folder.find(str(data_file))
        except NotRead as error:
            raise BenchmarkFileError(
                path, "dataset_kwargs.data_files", str(error), "copy the file next to the task"
            ) from error
    return paths


def _check_not_tagged(value: Any, path: Path, key: str) -> None:
    """Raise `BenchmarkFileError`, with `key`, if a value has the tag `!function` or `!include`."""
    match = _TAG.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return
    if match[1] == "include":
        what = f"the tag `!include {match[2]:.80}` is not supported because only the `include` key can include a file"
        raise BenchmarkFileError(path, key, what, "copy the contents of the file here")
    what = f"the task gets its documents from the Python function {match[2]:.80}, which Karenina does not run"
    cure = "write the documents to a JSON Lines file next to the task and name that file in data_files"
    raise BenchmarkFileError(path, key, what, f"{_RUN_IT}, or {cure}")


def _notes(task: Mapping[str, Any]) -> list[str]:
    """Return a note for each part of a task that is not carried over, such as few-shot examples and filters."""
    notes = []
    if task.get("process_docs"):
        notes.append("the task changes its documents with a Python function (process_docs), which is not executed")
    if task.get("num_fewshot"):
        notes.append(f"the task's few-shot examples (num_fewshot: {task['num_fewshot']}) are not carried over")
    if task.get("filter_list"):
        notes.append("the task's answer filters are not carried over; a judge reads the whole answer instead")
    listed = task.get("metric_list")
    metrics = [
        entry.get("metric") for entry in (listed if isinstance(listed, list) else ()) if isinstance(entry, Mapping)
    ]
    others = [str(metric) for metric in metrics if metric not in ("exact_match", "acc", "acc_norm")]
    if others:
        notes.append(f"the following metrics of the task are not carried over: {', '.join(others)}")
    return notes


def _row(place: str, document: Mapping[str, Any], task: Mapping[str, Any], notes: list[str]) -> SourceRow:
    """Make the row for a document, with the task's description and its rules for question, target and options filled
    in. A question or target that cannot be filled in is omitted. If the options cannot be, or if the target is the
    index of an option that does not exist, the row has a problem.
    """
    values: dict[str, Any] = {**document, "doc": document}
    left_out = []
    for name, key in (("question", "doc_to_text"), ("target", "doc_to_target"), ("options", "doc_to_choice")):
        try:
            values[f"task.{name}"] = _evaluate(task.get(key), document)
        except NotFilled as error:
            left_out.append(f"{key} ({error})")
    about = task.get("description")
    asked = values.get("task.question")
    if isinstance(about, str) and about and isinstance(asked, str) and "{{" not in about:
        values["task.question"] = f"{about.strip()}\n\n{asked}"
    choices, target = values.get("task.options"), values.get("task.target")
    is_place = type(target) is int or (isinstance(target, str) and target.isascii() and target.isdecimal())
    at = int(target) if is_place and target is not None else 0
    if task.get("doc_to_choice") is not None and choices is None:
        return SourceRow(
            place, {}, f"the options in doc_to_choice could not be determined from the task file; {_RUN_IT}"
        )
    if is_place and isinstance(choices, list):
        if not 0 <= at < len(choices):
            return SourceRow(
                place,
                {},
                f"the target is option index {target} (counted from 0), but the number of options is {len(choices)}",
            )
        # Not by its text, which may be the position of another option.
        values["task.target"] = ascii_uppercase[at] if len(choices) <= len(ascii_uppercase) else str(choices[at])
    return SourceRow(place, values, left_out=left_out, notes=notes)


def _evaluate(rule: Any, document: Mapping[str, Any]) -> Any:
    """Evaluate a rule for a document. A rule is a column, a list, or a template. None and numbers are returned
    unchanged. Raises `NotFilled` if only a program can evaluate the rule, or if a value is missing.
    """
    if rule is None or isinstance(rule, int):
        return rule
    if isinstance(rule, list):
        return [item if not isinstance(item, str) else _fill(item, document) for item in rule]
    if isinstance(rule, str) and rule in document:
        return document[rule]
    tagged = _TAG.fullmatch(rule) if isinstance(rule, str) else None
    if not isinstance(rule, str) or tagged is not None:
        raise NotFilled(
            "a Python function" if tagged is None or tagged[1] == "function" else "a file included with !include"
        )
    whole = re.fullmatch(r"\s*\{\{\s*(\w+)\s*\}\}\s*", rule)
    if whole is not None and whole[1] in document:
        return document[whole[1]]
    return _fill(rule, document)


def _fill(rule: str, document: Mapping[str, Any]) -> str:
    """Return the text of the template `rule`, filled in for a document. Raises `NotFilled` if a value is missing."""
    missing: set[str] = set()
    text = fill(_STRIP.sub(" | trim", rule), document, missing)
    if missing:
        raise NotFilled(f"the document has no {', '.join(sorted(missing))}")
    return text


LM_EVAL_TASK: Final = make_import_format(
    "lm-eval-task",
    "an lm-evaluation-harness task",
    _detect,
    _rows,
    FieldMapping(
        paths={
            "question": ("task.question", "question", "query", "problem", "prompt", "input"),
            "raw_answer": ("task.target", "answer", "target"),
            "id": ("id", "doc_id"),
            "choices": ("task.options", "choices.text", "choices", "options"),
            "keywords": ("subject", "category"),
        }
    ),
)
"""lm-evaluation-harness tasks on local files."""
