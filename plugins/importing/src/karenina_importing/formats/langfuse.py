"""Langfuse and Braintrust: dataset items, and traces or observations with scores, in JSON or JSON lines.

An item has `input` and `expectedOutput` (in Braintrust, `expected`), and a trace has `input` and `output`. Scores given
by people (with `source` ANNOTATION) become labels. Evaluator scores, and those of Braintrust, are not imported.
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
    parse_text,
    read_objects,
    stated_end,
)
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow
from karenina_importing.verdicts import Score, choose_label

_LISTS: Final = ("data", "items")
_ITEM: Final = frozenset(
    {"datasetId", "datasetName", "dataset_id", "sourceTraceId", "source_trace_id", "sourceObservationId"}
)
_TRACE: Final = frozenset(
    {"scores", "traceId", "trace_id", "observations", "sessionId", "htmlPath", "totalCost", "root_span_id"}
)
_EXPECTED: Final = ("expectedOutput", "expected_output", "expected")


def _detect(head: FileHead) -> Fit:
    """Return `Fit.YES` if a file contains only dataset items, or only traces or observations, else `Fit.NO`."""
    records = objects(head, *_LISTS)
    if not records or not all(isinstance(record, Mapping) and "input" in record for record in records):
        return Fit.NO
    items = all(_ITEM & record.keys() and any(key in record for key in _EXPECTED) for record in records)
    return Fit.YES if items or all("output" in record and _TRACE & record.keys() for record in records) else Fit.NO


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each record. If a record has no `input`, its row has a problem."""
    for row in read_objects(path, *_LISTS):
        if row.problem or row.values.get("input") is None:
            yield SourceRow(row.place, {}, row.problem or "the record has no `input`")
        else:
            yield _row(row.place, row.values)


def _row(place: str, item: Mapping[str, Any]) -> SourceRow:
    """Make the row for an item or a trace. The output of a trace is recorded as an answer, with a label made from the
    scores that people gave. The row of an archived item, or of a span inside of a trace, has a problem.
    """
    if item.get("status") == "ARCHIVED":
        return SourceRow(place, {}, "the item is archived")
    if item.get("is_root") is False:
        return SourceRow(place, {}, "the record is a span inside of a trace")
    truth, left = answered(_decode(next((item[key] for key in _EXPECTED if item.get(key) is not None), None)))
    values = {**item, "question": asked(_decode(item["input"])), "expected": truth}
    question = {**as_metadata({"metadata": item.get("metadata")}), **_keywords(item.get("tags"))}
    recordings = None
    if item.get("output") is not None and _TRACE & item.keys():
        output = _decode(item["output"])
        response, more = answered(output, conversation=True)
        label, scores = _scores(item.get("scores"))
        left = [*left, *more]
        model = item.get("model") or item.get("providedModelName")
        named = model if isinstance(model, str) else None
        recordings = [make_recording(response, named, label, stated_end(output))] if response not in (None, "") else []
        left_out = [*(f"output {name!r:.40}" for name in left), *(f"score {name!r:.40}" for name in scores)]
        return SourceRow(place, values, question=question, recordings=recordings, left_out=left_out)
    values["failure"] = item.get("error") or (item.get("statusMessage") if item.get("level") == "ERROR" else None)
    return SourceRow(place, values, question=question, left_out=[f"output {name!r:.40}" for name in left])


def _keywords(tags: Any) -> dict[str, Any]:
    """Return tags as the keywords of a question if they are a list of strings."""
    return {"keywords": tags} if isinstance(tags, list) and tags and all(isinstance(tag, str) for tag in tags) else {}


def _decode(value: Any) -> Any:
    """Decode a JSON string, as found in table exports. Other values are returned unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    return parse_text(value)


def _scores(scores: Any) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the label made from the scores that people gave, or None if there are none, and the names of all scores
    that are not in the label. An object contains scores by name, without who gave them.
    """
    if isinstance(scores, Mapping):
        return None, [str(name) for name, value in scores.items() if value is not None]
    people, others = [], []
    for score in scores if isinstance(scores, list) else ():
        if not isinstance(score, Mapping):
            continue
        value = score.get("stringValue") if score.get("stringValue") is not None else score.get("value")
        if score.get("source") == "ANNOTATION" and value is not None:
            people.append(Score(str(score.get("name")), value, score.get("authorUserId"), score.get("comment")))
        else:
            others.append(str(score.get("name")))
    label, more = choose_label(people)
    return label, [*others, *more]


LANGFUSE: Final = make_import_format(
    "langfuse",
    "Langfuse or Braintrust items or traces",
    _detect,
    _rows,
    FieldMapping(paths={"question": ("question",), "raw_answer": ("expected",), "id": ("id",), "error": ("failure",)}),
)
"""Dataset items and traces of Langfuse and Braintrust."""
