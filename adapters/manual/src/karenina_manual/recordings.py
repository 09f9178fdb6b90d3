"""A model's recordings, from a file or a mapping. Errors name the file and line."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_manual.recording_index import (
    Answer,
    Recording,
    RecordingIndex,
    RecordingMissing,
    digest_of,
    is_digest,
    list_some,
    parse_headings,
    parse_text,
)
from karenina_manual.settings import extra_of
from karenina_toolkit.files import LINES, FileError, read_json, read_records
from karenina_toolkit.files.bounded_files import open_only_below
from karenina_toolkit.traces import END_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import CallInfo
    from karenina_manual.settings import ManualExtra
logger = logging.getLogger("karenina")


@dataclass
class Recordings:
    """One model's recorded answers. A file is read once, on first use."""

    model: ModelConfig
    _read: RecordingIndex | None = field(default=None, init=False, repr=False)

    def check(self) -> None:
        """Read all recordings, to raise `AdapterConfigError` now if there are none or one is invalid.

        The message states its location.
        """
        index = self._index()
        if index.count == 0:
            model, there = extra_of(self.model).model, ", ".join(sorted(index.models))
            of_model = f" for the model {model!r} (extra.model), but has recordings for: {there}" if there else ""
            raise AdapterConfigError(f"model {self.model.id!r}: {index.name} has no recordings{of_model}")

    def mismatches(self, asked: Iterable[CallInfo], others: Iterable[CallInfo]) -> list[str]:
        """Return a message for each mismatch that `RecordingIndex.compare` finds between the questions and the
        recordings, with the name of the source. Recordings of more replicates than the run has, or with another text of
        the question unless most have one, and conversations that do not begin with the question, only cause a warning.
        """
        index = self._index()
        found = index.compare(asked, others)
        if found.later:
            answers = "1 recorded answer is" if found.later == 1 else f"{found.later} recorded answers are"
            logger.warning(
                "%s: %s not used because the run has fewer replicates; to judge all replicates, add `--set "
                "replicate_count=%d` (replicate_count = %d)",
                index.name,
                answers,
                found.last,
                found.last,
            )
        for one, several, differs, names in (
            ("conversation does", "conversations do", "begin with", found.other),
            ("answer does", "answers do", "have", [] if found.are_of_others else found.renamed),
        ):
            if names:
                logger.warning(
                    "%s: %s not %s the text of the question: %s; check that the ids are those of these questions",
                    index.name,
                    f"1 recorded {one}" if len(names) == 1 else f"{len(names)} recorded {several}",
                    differs,
                    list_some(names),
                )
        return [f"{index.name}: {problem}" for problem in found.messages()]

    def find(self, info: CallInfo) -> Answer:
        """Return the recorded answer to the question in `info`. Raises a permanent `PortError` if it is missing,
        invalid or empty.
        """
        traces = self.model.manual_traces
        if isinstance(traces, dict):
            return self._find_in_mapping(traces, info)
        try:
            if self._read is None:
                self._read = self._index()
            return self._read.find(info.question_id, info.question, info.replicate)
        except (RecordingMissing, AdapterConfigError) as error:
            raise self._to_port_error(error) from None

    def is_conversation(self, info: CallInfo) -> bool:
        """Return whether the recording for `info` is a conversation or has a patch. A single message without tool calls
        is an answer. Returns False if there is no usable recording, because the call raises an error later.
        """
        if self._read is not None and self._read.only_answers:
            return False
        try:
            found = self.find(info)
        except PortError:
            return False
        answer = found.said
        if found.patch is not None:
            return True
        return not isinstance(answer, str) and (len(answer) > 1 or bool(answer and answer[0].tool_calls))

    def _index(self) -> RecordingIndex:
        """Return the index of all recordings. Raises `AdapterConfigError` if they are missing or invalid."""
        traces = self.model.manual_traces
        extra = extra_of(self.model)
        if traces is None:
            raise AdapterConfigError(
                f"model {self.model.id!r}: manual_traces is missing; set manual_traces to a .json or .jsonl file, or "
                "to a mapping"
            )
        if not isinstance(traces, dict):
            return read_recordings(traces, extra, self.model.files_within)
        index = RecordingIndex(f"manual_traces of model {self.model.id!r}")
        _refuse_message(traces, index.name)
        for key, value in traces.items():
            index.add(key, key, Recording(value, f"manual_traces[{key!r}]"))
        return index

    def _find_in_mapping(self, traces: dict[str, object], info: CallInfo) -> Answer:
        """Return the answer in the mapping `traces`, found by the question's id, otherwise by its text or the digest of
        that. Raises `PortError` if there is none, or if it is invalid or empty.
        """
        # Each call indexes only one entry: the index is not cached, because the mapping's owner may change it.
        index = RecordingIndex(f"manual_traces of model {self.model.id!r}")
        digest = digest_of(info.question)
        key = next((key for key in (info.question_id, info.question, digest) if key and key in traces), None)
        try:
            if key is not None:
                place, value = f"manual_traces[{key!r}]", traces[key]
                # In a mapping given by a program, text is an answer by default, so it is never ambiguous.
                delimited = bool(extra_of(self.model).delimited)
                value = parse_headings(value) if key == digest else parse_text(value, delimited, place)
                index.add(info.question_id, info.question, Recording(value, place))
            else:
                index.count = len(traces)
            return index.find(info.question_id, info.question, info.replicate)
        except (RecordingMissing, AdapterConfigError) as error:
            raise self._to_port_error(error) from None

    def _to_port_error(self, error: Exception) -> PortError:
        """Convert an error to a permanent `PortError` that names the model."""
        return PortError(f"{self.model.display_string}: {error}", category=ErrorCategory.PERMANENT)


def recordings_of(model: ModelConfig) -> Recordings:
    """Return the recordings for `model`, without reading them."""
    return Recordings(model)


def read_recordings(path: Path, extra: ManualExtra, folder: Path | None = None) -> RecordingIndex:
    """Return an index of the recordings in the file `path`, whose columns and rows are selected by `extra`. It is
    cached until the file changes. With `folder`, links to files outside it are not followed. Raises
    `AdapterConfigError` if the file cannot be read or a recording is invalid.
    """
    try:
        about = path.stat()
    except OSError as error:
        raise AdapterConfigError(
            f"cannot read the recordings {path}: {error.strerror or error}; check manual_traces"
        ) from None
    return _read_cached(path.absolute(), about.st_mtime_ns, about.st_size, extra, folder)


@lru_cache(maxsize=8)
def _read_cached(path: Path, _changed: int, _size: int, extra: ManualExtra, folder: Path | None) -> RecordingIndex:
    """Read and return the recordings in a file, which must be below `folder` if that is given. `_changed` and `_size`
    only distinguish versions of the file in the cache. Raises `AdapterConfigError`, which is not cached, if the file or
    a recording is invalid.
    """
    index = RecordingIndex(str(path))
    try:
        with open_only_below(folder):
            if path.suffix.lower() in LINES:
                with read_records(path, surrogates=True) as records:
                    for record in records:
                        index.add_row(str(path), record.value, extra, record.number)
            elif path.suffix.lower() == ".json":
                _add_json(path, index, extra)
            else:
                raise AdapterConfigError(f"recordings {path}: the file name must end in .json, .jsonl or .ndjson")
    except FileError as error:
        raise AdapterConfigError(f"recordings {error} (see manual_traces)") from None
    return index


def _refuse_message(data: Mapping[str, object], place: str) -> None:
    """Raise `AdapterConfigError` if an object that should map ids or questions to recordings is a single message."""
    stated = [key for key in END_KEYS if key in data]
    if stated or {"role", "content"} <= data.keys():
        key = stated[0] if stated else "role"
        raise AdapterConfigError(
            f"recordings {place}: the object has the key {key!r} and is one message; map the ids or questions to "
            "recordings, or write a list of rows, each with the id and the response"
        )


def _add_json(path: Path, index: RecordingIndex, extra: ManualExtra) -> None:
    """Add the recordings in a JSON file to `index`. The file contains an object by id or question, or a list of rows.
    Raises `AdapterConfigError` for anything else.
    """
    data = read_json(path, surrogates=True)
    if isinstance(data, list):
        for number, row in enumerate(data, 1):
            index.add_row(f"{path}, entry {number}", row, extra)
    elif isinstance(data, Mapping):
        _refuse_message(data, str(path))
        for key, value in data.items():
            place = f"{path}, key {key!r}"
            trace = parse_headings(value) if is_digest(key) else parse_text(value, extra.delimited, place)
            index.add(key, key, Recording(trace, place))
    else:
        raise AdapterConfigError(
            f"recordings {path}: the file must contain an object that maps ids or questions to recordings, or a list "
            "of rows"
        )
