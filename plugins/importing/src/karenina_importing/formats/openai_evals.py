"""OpenAI Evals: the record of a run of `oaieval`, and files of samples.

In a record, the events of one sample are one row: `samplings` and `matches` are the data of its events in order,
`metrics` and `raw_sample` those of the last one, and `spec` describes the run. A line of a file of samples is a row
with `input` and `ideal`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_importing.field_mapping import FieldMapping
from karenina_importing.file_head import FileHead
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import read_lines
from karenina_importing.source_row import SourceRow

_EVENT: Final = {"run_id", "event_id", "type", "data"}
_LISTS: Final = {"sampling": "samplings", "match": "matches", "error": "errors"}


def _detect(head: FileHead) -> Fit:
    keys = head.record.keys()
    is_record = keys == {"spec"} or keys >= _EVENT
    return Fit.YES if is_record or keys >= {"input", "ideal"} else Fit.NO


def _rows(path: Path) -> Iterator[SourceRow]:
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
    "a record or samples of OpenAI Evals",
    _detect,
    _rows,
    FieldMapping(
        paths={
            "question": ("samplings.0.prompt", "raw_sample.input", "matches.0.prompt", "input"),
            "raw_answer": ("matches.0.expected", "raw_sample.ideal", "ideal"),
            "id": ("sample_id",),
            "response": ("samplings.0.sampled", "matches.0.sampled"),
            "model": ("spec.completion_fns.0",),
            "error": ("errors.0.message",),
        }
    ),
)
"""OpenAI Evals. Of a graded sample, the first sampling is the answer, and the next ones are those of the grader."""
