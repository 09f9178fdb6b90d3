"""OpenAI Evals: the record of an `oaieval` run, sample files, and the output items of a run on the platform.

In a record, all events of a sample make one row: `samplings` and `matches` have the data of all such events in order,
`metrics` and `raw_sample` the data of the last one, and `spec` describes the run. In a sample file, each line is a row
with `input` and `ideal`. Output items are an API page, a list or JSON lines; each item is a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_importing.field_mapping import FieldMapping
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow, read_lines

_EVENT: Final = {"run_id", "event_id", "type", "data"}
_LISTS: Final = {"sampling": "samplings", "match": "matches", "error": "errors"}
_ITEM: Final = {"datasource_item", "sample"}
_TRUTHS: Final = ("ground_truth", "correct_label", "ideal", "expected", "reference", "answer", "label")
"""Names for the right answer in data source items; users choose these names."""


def _detect(head: FileHead) -> Fit:
    keys = head.record.keys()
    is_record = keys == {"spec"} or keys >= _EVENT or keys >= _ITEM
    return Fit.YES if is_record or keys >= {"input", "ideal"} or _items(head.document) else Fit.NO


def _items(document: Any) -> list[Any]:
    """Return the output items in an API page or a list, or a single item; empty if a file has none."""
    found = document
    if isinstance(document, Mapping):
        found = [document] if document.keys() >= _ITEM else document.get("data")
    if not isinstance(found, list):
        return []
    return found if all(isinstance(one, Mapping) and one.keys() >= _ITEM for one in found) else []


def _rows(path: Path) -> Iterator[SourceRow]:
    items = _items(FileHead(path).document)
    if items:
        yield from (SourceRow(f"item {number}", item) for number, item in enumerate(items, 1))
        return
    spec: Any = None
    samples: dict[str, dict[str, Any]] = {}
    places: dict[str, str] = {}
    for row in read_lines(path):
        values = row.values
        if row.problem:
            yield row
        elif "spec" in values:
            spec = values["spec"]
        elif values.keys() >= _EVENT:
            id = str(values.get("sample_id"))
            places.setdefault(id, row.place)
            _add_event(samples.setdefault(id, {"sample_id": id}), values)
        elif "final_report" not in values:
            yield row
    for id, sample in samples.items():
        yield SourceRow(places[id], {**sample, "spec": spec})


def _add_event(sample: dict[str, Any], event: Mapping[str, Any]) -> None:
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
            "model": ("spec.completion_fns.0", "sample.model"),
            "error": ("errors.0.message", "sample.error.message"),
        }
    ),
)
"""OpenAI Evals. The first sampling of a graded sample is the answer; the next ones are the grader's."""
