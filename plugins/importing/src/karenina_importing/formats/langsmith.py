"""LangSmith: dataset examples and runs, in JSON or JSON lines, as exported by the SDK, the API or the website.

A row is an example (`inputs`, and `outputs` as the reference), or a run (`inputs`, `outputs` from a model, and
`reference_outputs` or `reference_example`). People's feedback on a run becomes a label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.structured_values import (
    answered,
    as_metadata,
    asked,
    make_recording,
    objects,
    read_objects,
    stated_end,
)
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow
from karenina_importing.verdicts import Score, choose_label

_LISTS: Final = ("examples", "runs", "results", "data")
_RUN: Final = frozenset({"run_type", "trace_id", "reference_example_id", "reference_outputs", "reference_example"})
_PEOPLE: Final = frozenset({"app", "human", "annotation", "user"})
_KEPT: Final = ("split", "dataset_id", "metadata")


def _detect(head: FileHead) -> Fit:
    """Return `Fit.YES` if all records in a file have inputs, and at least one is an example or a run, else `Fit.NO`."""
    records = objects(head, *_LISTS)
    fits = records and all(
        isinstance(record, Mapping) and isinstance(record.get("inputs"), Mapping) for record in records
    )
    return Fit.YES if fits and any("outputs" in record or _RUN & record.keys() for record in records) else Fit.NO


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each record. If a record has no `inputs`, its row has a problem."""
    for row in read_objects(path, *_LISTS):
        if row.problem or not isinstance(row.values.get("inputs"), Mapping):
            yield SourceRow(row.place, {}, row.problem or "the record has no `inputs`")
        else:
            yield _row(row.place, row.values)


def _row(place: str, item: Mapping[str, Any]) -> SourceRow:
    """Make the row for an example or a run. A run gets the ID of its example, if it has one, and its output is recorded
    as an answer unless it has an error.
    """
    is_run = bool(_RUN & item.keys())
    reference = item.get("reference_outputs")
    if reference is None and isinstance(item.get("reference_example"), Mapping):
        reference = item["reference_example"].get("outputs")
    truth, left = answered(reference if is_run else item.get("outputs"))
    values = {**item, "question": asked(item["inputs"]), "expected": truth}
    question = as_metadata({key: item.get(key) for key in _KEPT})
    recordings = None
    others: list[str] = []
    if is_run:
        values["id"] = item.get("reference_example_id") or item.get("id")
        answers, more = _recordings(item)
        recordings, others = (None if item.get("error") else answers), more
    left_out = [*(f"output {name!r:.40}" for name in left), *others]
    return SourceRow(place, values, question=question, recordings=recordings, left_out=left_out)


def _recordings(run: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a run's answer with its label, as a list of one recording, and the names of the omitted parts. The list is
    empty if the run failed or its output is empty.
    """
    response, more = answered(run.get("outputs"), conversation=True)
    left = [f"output {name!r:.40}" for name in more]
    if response in (None, "") or run.get("error"):
        return [], left
    label, scores = choose_label(list(_scores(run.get("feedback") or run.get("feedbacks"))))
    left += [f"feedback {name!r:.40}" for name in scores]
    return [make_recording(response, _model(run), label, stated_end(run.get("outputs")))], left


def _model(run: Mapping[str, Any]) -> str | None:
    """Return the name of the model in a run's metadata, or None if it is not stated as a string."""
    extra = run.get("extra")
    for part in (run.get("metadata"), extra.get("metadata") if isinstance(extra, Mapping) else None):
        name = part.get("ls_model_name") or part.get("model") if isinstance(part, Mapping) else None
        if isinstance(name, str):
            return name
    return None


def _scores(feedback: Any) -> Iterator[Score]:
    """Yield the scores that people gave. Those of programs and models are skipped."""
    for entry in feedback if isinstance(feedback, list) else ():
        source = entry.get("feedback_source") if isinstance(entry, Mapping) else None
        kind = source.get("type") if isinstance(source, Mapping) else None
        score = entry.get("score") if isinstance(entry, Mapping) else None
        score = entry.get("value") if isinstance(entry, Mapping) and score is None else score
        if kind in _PEOPLE and score is not None:
            yield Score(str(entry.get("key")), score, None, entry.get("comment"))


LANGSMITH: Final = make_import_format(
    "langsmith",
    "LangSmith examples or runs",
    _detect,
    _rows,
    FieldMapping(
        paths={"question": ("question",), "raw_answer": ("expected",), "id": ("id",), "error": ("error",)},
    ),
)
"""LangSmith examples and runs."""
