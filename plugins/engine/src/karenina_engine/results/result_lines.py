"""The lines of a result file. Values that many results have in common are only written once.

There are three kinds of lines, each of which is a JSON object:

- `{"run": ...}`, a header (`karenina_engine.results.result_file.header_line`).
- `{"table": {ID: ROW}}`, which defines a row of the table. A row is either an object with the fields and the names of
  stages that are the same in many results (`_SHARED`), or the text of a reason for which stages were skipped. `ID` is
  the start of the row's SHA-256 digest, so that files can be joined, and lines put in any order, without confusing one
  row with another.
- A result. Fields with default values are omitted (`dump_result`). If the line begins with `"row"`, the contents of the
  row with that id are omitted too. The result's stages are in the order of that row: each is a number for a stage that
  ran in that many seconds, the id of a reason (or null) for a skipped stage, or otherwise an object with the stage's
  own `StageRecord` fields. A missing `parsing_id` is equal to the `answering_id`.

A result that begins with `"metadata"` is complete in itself. Both forms are read back as the same result.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, Self

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from karenina_core.data.result import SCHEMA_VERSION, VerificationResult
from karenina_core.data.sections import ModelIdentity, StageRecord
from karenina_core.errors import KareninaError
from karenina_engine.results.result_file import ROW_LINE, TABLE_LINE

_SHARED: Final = {
    "metadata": ("run_name", "answering", "parsing", "answering_system_prompt", "parsing_system_prompt"),
    "template": ("composition_strategy", "answering_mcp_servers"),
}
"""The fields in a row in addition to `stages`, by section. The ids of both models are kept in each line."""
_SHARED_BY_STAGES: Final = ("name", "slot", "distribution", "version")
MOST_ROWS: Final = 10_000
"""The maximum number of rows in a table. Later results do not use the table."""
_MOST_RECORDS: Final = 4096
"""The maximum number of stages' records that are kept because they recur."""
_ID_LENGTH: Final = 12
UNKNOWN: Final = "unknown"
"""The name used for models, stages and reasons if their row is missing."""

_CUT_OFF: Final = re.compile(r"EOF while parsing .* column (\d+)")
_REWRITE: Final = (
    "remove that line, or repeat the run command to write the file again (finished calls come from its journal)"
)


class ResultFileError(KareninaError, ValueError):
    """Raised if a result file cannot be read. The message names the line and gives the reason."""


def dump_result(result: VerificationResult) -> str:
    """Serialize a result as JSON without default values. This is the form stored in the journal. Raises `ValueError` if
    the result contains text that is not valid Unicode.
    """
    return result.model_dump_json(exclude_defaults=True)


class LineWriter:
    """Writes the lines of a file, and keeps track of the rows that it already contains."""

    def __init__(self) -> None:
        self._ids: dict[Hashable, str] = {}
        """The ids of rows, by a reason's text or by the values of a row."""

    def lines(self, result: VerificationResult | str) -> list[str]:
        """Return the lines for a result or the text that `dump_result` wrote for it: new table rows, followed by the
        result. If the table is full or a text is not a result, the text itself is the only line.
        """
        rows: list[str] = []
        try:
            if isinstance(result, str):
                values = from_json(result)
            else:  # faster than writing the text and parsing it
                values = result.model_dump(mode="json", exclude_defaults=True)
            records = values.get("stages", [])
            sections: dict[str, dict[str, Any]] = {}
            for section, shared in _SHARED.items():
                fields = values.get(section, {})
                sections[section] = {name: fields.pop(name) for name in shared if name in fields}
            meta = values["metadata"]
            if meta["parsing_id"] == meta["answering_id"]:
                del meta["parsing_id"]
            stages = [tuple(map(record.pop, _SHARED_BY_STAGES, repeat(None))) for record in records]
            key = to_json(sections), *stages
            id = self._ids.get(key)
        except (ValueError, LookupError, TypeError, AttributeError):  # nested too deeply, or not a result
            return [_text_of(result)]
        if id is None:
            named = [dict(zip(_SHARED_BY_STAGES, stage, strict=True)) for stage in stages]
            given = [{name: value for name, value in stage.items() if value is not None} for stage in named]
            id = self._add(key, {**sections, "stages": given}, rows)
        if id is None:
            return [_text_of(result)]
        if records:
            values["stages"] = [self._shorten(record, rows) for record in records]
        return [*rows, to_json({"row": id, **values}).decode()]

    def _shorten(self, record: dict[str, Any], rows: list[str]) -> Any:
        """Return the shortest form of a stage's record. If it ran, these are its seconds, with other fields only if
        there are any; if it was skipped, the id of the reason. Changes `record` in place, and adds a row to `rows` for
        a new reason for skipping.
        """
        status = record["status"]
        if status == "ran":
            if len(record) == 2 and "seconds" in record:
                return record["seconds"]
            del record["status"]
            return record or 0
        reason = record.get("reason")
        if status == "skipped" and len(record) == 1 + ("reason" in record):
            return None if reason is None else self._ids.get(reason) or self._add(reason, reason, rows) or record
        return record

    def _add(self, key: Hashable, row: Any, rows: list[str]) -> str | None:
        """Return the id of a new row, whose line is added to `rows`. Returns None if the table is full."""
        if len(self._ids) >= MOST_ROWS:
            return None
        text = to_json(row)
        id = self._ids[key] = _digest(text)
        rows.append(f'{{"table":{{"{id}":{text.decode()}}}}}')
        return id


def _text_of(result: VerificationResult | str) -> str:
    """Return the text of a result."""
    return result if isinstance(result, str) else dump_result(result)


def _digest(text: bytes) -> str:
    """Return the id of a row, given its JSON text."""
    return hashlib.sha256(text).hexdigest()[:_ID_LENGTH]


class LineReader:
    """Reads the lines of a file, and keeps the rows of its table.

    `nameless` becomes True if a result's row is missing.
    """

    def __init__(self) -> None:
        self._rows: dict[str, Any] = {}
        self.nameless = False

    def add_rows(self, line: bytes) -> None:
        """Add the rows in a table line to the table. Other lines and damaged rows are ignored."""
        if line.startswith(TABLE_LINE):
            try:
                self.add_table(from_json(line)["table"])
            except (ValueError, LookupError, TypeError):
                return

    def add_table(self, table: object) -> None:
        """Add the rows in `table`, which maps ids to rows. Rows that do not match their ids are ignored, since the
        names in them could be wrong.
        """
        for id, row in table.items() if isinstance(table, Mapping) else ():
            if _digest(to_json(row)) == id:
                known = row if isinstance(row, str) else _SharedFields.read(row)
                self._rows[id] = known if self._rows.get(id, known) == known else None

    def read(self, line: bytes | str, place: str) -> VerificationResult:
        """Return the result in a line. If the table row that it refers to is missing, the models and stages are called
        `UNKNOWN`. Raises `ResultFileError`, with `place` in the message, if the line is not a valid result.
        """
        text = line.encode() if isinstance(line, str) else line
        if not text.startswith(ROW_LINE):
            return parse_result(text, place)
        try:
            return VerificationResult.model_validate(
                self._with_row(from_json(text.rstrip(), allow_inf_nan=False), place)
            )
        except ValidationError as error:
            raise _invalid_result(error, place) from error
        except ValueError as error:
            if isinstance(error, ResultFileError):
                raise
            raise ResultFileError(f"{place} {_describe_invalid_json(str(error))}; {_REWRITE}") from error

    def _with_row(self, values: dict[str, Any], place: str) -> dict[str, Any]:
        """Add the values in a line's row to `values`, the values of the line, in place, and return them. The line takes
        precedence. If the row is missing, its values are `UNKNOWN`, and `nameless` becomes True. Raises
        `ResultFileError`, with `place` in the message, if the row has a different number of stages.

        Values of the wrong type are left for the validation to report.
        """
        stages = values.get("stages")
        row = self._rows.get(str(values.pop("row", None)))
        if not isinstance(row, _SharedFields):
            self.nameless = True
            row = _SharedFields(_UNKNOWN_MODELS, [_UNKNOWN_STAGE] * (len(stages) if isinstance(stages, list) else 0))
        for section, shared in row.sections.items():
            if isinstance(fields := values.get(section, {}), dict):
                values[section] = {**shared, **fields}
        meta = values.get("metadata")
        if isinstance(meta, dict) and "answering_id" in meta:
            meta.setdefault("parsing_id", meta["answering_id"])
        if isinstance(stages, list):
            if len(row.stages) != len(stages):
                raise ResultFileError(f"{place} and its row in the table have different numbers of stages; {_REWRITE}")
            values["stages"] = list(map(self._record, row.stages, stages))
        return values

    def _record(self, stage: tuple[str, dict[str, Any]], entry: Any) -> StageRecord | dict[str, Any]:
        """Return a stage's record: its entry in a line combined with the stage's fields in the row. It is a dict if the
        entry is an object, or if the record is not valid.
        """
        text, shared = stage
        if isinstance(entry, dict):
            return {**shared, **entry}
        if isinstance(entry, str):
            reason = self._rows.get(entry)
            if not isinstance(reason, str):
                self.nameless, reason = True, UNKNOWN
            entry = reason
        try:
            return _read_record(text, entry)
        except (TypeError, ValidationError):  # the validation of the result reports it
            return {**shared, **_own_fields(entry)}


@lru_cache(maxsize=_MOST_RECORDS)
def _read_record(shared: str, entry: float | str | None) -> StageRecord:
    """Return the record of a stage, from the JSON text of its fields in the row and its entry in a line, with the text
    of a reason in place of its id. Most records recur in many results, because times are in whole microseconds. Raises
    `TypeError` or `ValidationError` if the record is not valid.
    """
    return StageRecord.model_validate({**from_json(shared), **_own_fields(entry)})


def _own_fields(entry: float | str | None) -> dict[str, Any]:
    """Return the fields for which an entry stands: the reason for skipping a stage (None if there is none), or the
    seconds that it ran.
    """
    if entry is None:
        return {"status": "skipped"}
    return {"status": "skipped", "reason": entry} if isinstance(entry, str) else {"seconds": entry}


@dataclass(frozen=True, slots=True)
class _SharedFields:
    """A table row with values that many results have in common.

    It contains fields by section, and fields of each stage's record, both as JSON text and as a dict. Each record also
    has the status of a stage that ran.
    """

    sections: dict[str, dict[str, Any]]
    stages: list[tuple[str, dict[str, Any]]]

    @classmethod
    def read(cls, row: Any) -> Self | None:
        """Read a row from a JSON value. Returns None if the value is not a row."""
        try:
            shared = {section: _chosen(row[section], names) for section, names in _SHARED.items()}
            stages = [{"status": "ran", **_chosen(stage, _SHARED_BY_STAGES)} for stage in row["stages"]]
        except (LookupError, TypeError):
            return None
        meta = shared["metadata"]
        for model in meta.keys() & {"answering", "parsing"}:
            with suppress(ValidationError):  # the validation of each result reports it
                meta[model] = ModelIdentity.model_validate(meta[model])
        return cls({section: fields for section, fields in shared.items() if fields}, list(map(_with_text, stages)))


def _with_text(stage: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a stage's fields as JSON text, which can be the key of a cache, and as a dict."""
    return to_json(stage).decode(), stage


def _chosen(fields: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the fields whose names are in `names`. Missing fields are skipped."""
    return {name: fields[name] for name in names if name in fields}


_UNKNOWN_MODELS: Final = {
    "metadata": {
        "answering": {"interface": UNKNOWN, "model_name": UNKNOWN},
        "parsing": {"interface": UNKNOWN, "model_name": UNKNOWN},
    }
}
_UNKNOWN_STAGE: Final = _with_text({"status": "ran", "name": UNKNOWN, "distribution": UNKNOWN, "version": UNKNOWN})


def parse_result(text: bytes | str, place: str) -> VerificationResult:
    """Parse the JSON text of a result that is complete in itself. Raises `ResultFileError`, with `place` in the
    message, if it is not a valid result.
    """
    try:
        return VerificationResult.model_validate_json(text.rstrip())
    except ValidationError as error:
        raise _invalid_result(error, place) from error


def _invalid_result(error: ValidationError, place: str) -> ResultFileError:
    """Return the error for text that is not a result."""
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return ResultFileError(f"{place} {_describe_invalid_json(first['msg'])}; {_REWRITE}")
    where = ".".join(str(part) for part in first["loc"])
    problem = first["msg"].removeprefix("Value error, ")
    return ResultFileError(
        f"{place} is not a result of this version ({SCHEMA_VERSION}) because the field {where!r} is invalid: "
        f"{problem}. Use a file that `karenina run` wrote, or read the file with the version that wrote it"
    )


def _describe_invalid_json(problem: str) -> str:
    """Describe the problem with invalid JSON, as the end of a sentence."""
    column = _CUT_OFF.search(problem)
    if column is not None:
        return f"is incomplete (it ends at column {column[1]})"
    return f"is not valid JSON ({problem.removeprefix('Invalid JSON: ')})"
