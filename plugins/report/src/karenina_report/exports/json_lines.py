"""Export whole results as JSON or JSON lines, and answers for `--recordings`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from karenina_core.data.result import VerificationResult
from karenina_core.text import replace_surrogates
from karenina_engine.journal.view import JournalView
from karenina_engine.results.result_file import header_line, recorded_answer, warn_about_left_out, why_not_recorded
from karenina_engine.results.result_set import read_results
from karenina_report.exports.exporter import Exporter

if TYPE_CHECKING:
    from karenina_report.exports.exporter import ExportRequest


def _write_lines(request: ExportRequest, file: BinaryIO) -> None:
    """Write the chosen table as one JSON object per line. Without one, write a header and whole results."""
    if request.table is not None:
        for row in request.tables(request.table):
            file.write(json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n")
        return
    file.write(header_line(request.distributions, request.run, rescored=request.rescored).encode() + b"\n")
    for result in request.results:
        file.write(result.model_dump_json().encode() + b"\n")


def _write_json(request: ExportRequest, file: BinaryIO) -> None:
    """Write the chosen table as a JSON array. Without one, write an object with `run` and `results`."""
    if request.table is not None:
        rows = [json.dumps(row, ensure_ascii=False, default=str) for row in request.tables(request.table)]
        file.write(("[" + ",\n".join(rows) + "]\n").encode())
        return
    file.write(b'{"run": ' + json.dumps({"distributions": dict(request.distributions)}).encode())
    file.write(b', "results": [')
    for number, result in enumerate(request.results):
        file.write((b",\n" if number else b"\n") + result.model_dump_json().encode())
    file.write(b"\n]}\n")


def _write_recording(request: ExportRequest, file: BinaryIO) -> None:
    """Write one JSON object per line for each answer, replacing lone surrogates by U+FFFD."""
    for answer in _answers(request):
        file.write(replace_surrogates(json.dumps(answer, ensure_ascii=False)).encode() + b"\n")


def _answers(request: ExportRequest) -> Iterator[dict[str, Any]]:
    """Yield each answer in the journal or, without one, in the results once, even if several judges judged it. A
    warning counts the answers that were left out because they cannot be recorded.
    """
    if request.journal is not None:
        with JournalView(request.journal) as view:
            yield from view.recordings(request.model)
        return
    seen: set[tuple[str, ...]] = set()
    left_out: dict[tuple[str, ...], str] = {}
    for result in request.results:
        answer, values = (*result.item[:2], str(result.item[3])), result.model_dump(mode="json")
        if (why := why_not_recorded(values)) is not None:
            left_out[answer] = why
        elif answer not in seen:
            seen.add(answer)
            yield recorded_answer(values)
    warn_about_left_out(why for answer, why in left_out.items() if answer not in seen)


JSONL = Exporter(
    "jsonl",
    "the results with all their fields, one JSON object per line, as `karenina run --full` writes them",
    (".jsonl", ".ndjson"),
    _write_lines,
    takes_table=True,
    first_bytes=(b"{",),
    read=read_results,
)
JSON = Exporter(
    "json",
    "the results as one JSON document",
    (".json",),
    _write_json,
    takes_table=True,
    first_bytes=(b"{", b"["),
    read=read_results,
)
RECORDING = Exporter(
    "recording",
    "the answers alone, one per line, as `karenina run --recordings` reads them",
    (),
    _write_recording,
    first_bytes=(b"{",),
)


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def make_schema() -> dict[str, Any]:
    """Generate the JSON Schema of a result from the installed code."""
    return {"$schema": DIALECT, **VerificationResult.model_json_schema(mode="serialization")}


def published_schema() -> str:
    """Return `result.schema.json`, the schema that is published with this package."""
    return resources.files("karenina_report").joinpath("result.schema.json").read_text("utf-8")
