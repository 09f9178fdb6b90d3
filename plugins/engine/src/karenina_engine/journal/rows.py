"""The rows of a journal, and a filter that quickly rules out keys without a row.

Nothing in a journal is trusted when its rows are read.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeGuard

from karenina_core.data.sections import KeptFile
from karenina_core.errors import KareninaError
from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import AgentReply, CallNotes
from karenina_engine.calls.call import CallOutcome
from karenina_engine.calls.reply_json import dump_error, dump_json, dump_reply, is_reusable, load_error, read_reply
from karenina_engine.cost.ledger import COUNTED, LedgerLine, SpendCounts
from karenina_engine.journal.file import JournalDamaged
from karenina_engine.journal.schema import is_intact, row_digest, with_digest

if TYPE_CHECKING:
    from karenina_core.data.result import ItemId
    from karenina_engine.calls.call import CallRecord

_MOST: Final = 2**63 - 1
_END_OF_TIME: Final = 1e11  # seconds: Python's dates cannot hold later times
_NO_RETRIES: Final = "{}"
_FILTER_BITS: Final = 1 << 25
"""The number of bits, which take up 4 MB. With a million keys, one bit in 33 is set."""
_TURNS: Final = "turns"
_FILES: Final = "kept_files"
_ANSWERED: Final = "answered"
_COST: Final = "cost"
_UNCOUNTED: Final = "uncounted"
_KEY: Final = re.compile("[0-9a-f]{64}")


def dump_attachment(attachment: Attachment) -> str:
    """Return what is stored of an attached file: its media type, digest and size, as JSON."""
    return dump_json({"media_type": attachment.media_type, "sha256": attachment.sha256, "size": attachment.size})


def load_attachment(text: object, name: str) -> Attachment | None:
    """Return the attachment called `name` from the output of `dump_attachment`, or None if that is damaged."""
    try:
        data = json.loads(str(text))
        media_type, sha256, size = data["media_type"], data["sha256"], data["size"]
    except (ValueError, KeyError, TypeError):
        return None
    whole = isinstance(media_type, str) and isinstance(sha256, str) and isinstance(size, int)
    return Attachment(name, media_type, sha256, size) if whole else None


class UnstorableRow(KareninaError):
    """Raised if a row cannot be stored, for example because it contains a count of 2^63 or a lone surrogate."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A stored result.

    `row` is its row id, and `text` is its JSON. If `again` is set, the item must run again. `run` is the latest run
    that included the result, and `index` is its index in that run. If `compressed` is set, the text has the form that
    `dump_result` writes.
    """

    row: int
    text: str
    again: bool
    run: int
    index: int
    compressed: bool = False


@dataclass(slots=True)
class FinishedItem:
    """A finished item: the arguments of `Journal.finish`. `text` is its result."""

    index: int
    item: ItemId
    fingerprint: bytes
    outcome: str
    text: str
    again: bool


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A row of `runs`: the start, the end (None if the run has not ended), the number of items, and the command."""

    id: int
    began: float
    ended: float | None
    items: int
    command: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredReply:
    """An intact row of `replies`: the outcome of a call, and whether it can be reused."""

    outcome: CallOutcome
    reusable: bool


def make_reply_row(call: CallRecord, outcome: CallOutcome) -> tuple[Any, ...]:
    """Return the row of `replies` for the outcome of a call, with whether it can be reused. For errors and composite
    calls, the numbers of tokens and calls are 0. Raises `TypeError` or `ValueError` if it cannot be stored.
    """
    reply, notes = outcome.reply, outcome.notes
    info, model = call.info, call.endpoint.model
    if reply is not None:
        usage, text, finish = reply.usage, dump_reply(reply), reply.finish_reason
        # Without the work that an agent left in its workspace, its reply is worth nothing to the stages that read it.
        complete = call.self_contained or (isinstance(reply, AgentReply) and reply.recorded is not None)
        reusable = complete and (not call.is_model_call or is_reusable(reply))
        spent = (0, 0, 0) if call.composite else (usage.input_tokens, usage.output_tokens, usage.calls)
        if {*map(type, spent)} != {int}:
            raise TypeError(f"the token usage of the reply must consist of integers, not {spent}")
    else:
        assert outcome.error is not None
        text, finish, reusable, spent = dump_error(outcome.error), None, False, (0, 0, 0)
    if notes.keys:
        text = dump_json({**json.loads(text), _TURNS: notes.keys})
    if call.composite and notes.uncounted:
        text = dump_json({**json.loads(text), _UNCOUNTED: notes.uncounted})
    if call.is_model_call and reply is not None:
        cost = "null" if notes.cost is None else notes.cost
        text = f'{text[:-1]},"{_ANSWERED}":{notes.answered:.6f},"{_COST}":{cost}}}'
    if outcome.files:
        files = [file.model_dump(mode="json", exclude_none=True) for file in outcome.files]
        text = dump_json({**json.loads(text), _FILES: files})
    row = (
        *(call.key, call.endpoint.port, model.id, model.interface, model.model_name),
        *(info.stage, info.task, info.question_id, info.replicate),
        *(int(reply is None), int(reusable), finish, *spent, float(notes.seconds)),
        *(json.dumps(notes.retries) if notes.retries else _NO_RETRIES, notes.waited + notes.queued, time.time(), text),
    )
    return with_digest("replies", row)


def make_result_row(run: int, finished: FinishedItem, compress: Callable[[str], str | bytes]) -> tuple[Any, ...]:
    """Build the row for an item's result. `compress` converts the result's text to its stored form. Raises `ValueError`
    if the text cannot be stored.
    """
    outcome, again = finished.outcome, int(finished.again)
    values = (run, finished.index, *finished.item, finished.fingerprint, outcome, again, time.time())
    digest = row_digest("results", (*values, finished.text))
    return (*values, compress(finished.text), digest)


def make_spent_row(session: int, line: LedgerLine) -> tuple[Any, ...]:
    """Build the row for a ledger line. Counts are limited to the range of their columns."""
    counts = (max(0, min(int(getattr(line.spent, name)), _MOST)) for name in COUNTED)
    return with_digest("spent", (session, *line.names, *counts))


_columns_to_read: Final = itemgetter(1, 9, 10, 15, 16, 17, 19)


def read_reply_row(row: Sequence[Any], key: bytes) -> StoredReply | None:
    """Return the stored outcome in a row of `replies`, or None if the row is damaged or does not belong to the call
    with the given key.
    """
    if row[0] != key or not is_intact("replies", row):
        return None
    port, failed, reusable, seconds, retries, waited, text = _columns_to_read(row)
    try:
        values = json.loads(text)
        notes = CallNotes(_counts(retries) if retries != _NO_RETRIES else {}, float(waited), float(seconds))
        if port != "service" and not failed:
            notes.answered, notes.cost = _spent_in(values)
        if port == "agent":
            notes.keys = [key for key in values.get(_TURNS, ()) if _KEY.fullmatch(key)]
            notes.uncounted = int(values.get(_UNCOUNTED, 0))
        files = tuple(map(KeptFile.model_validate, values.get(_FILES, ())))
        outcome = (
            CallOutcome(None, load_error(text), notes)
            if failed
            else CallOutcome(read_reply(port, values), None, notes, files)
        )
        if outcome.reply is not None and not notes.keys:
            notes.uncounted = int(outcome.reply.usage.calls > 0 and not outcome.reply.usage.output_tokens)
    except DECODE_ERRORS:
        return None
    return StoredReply(outcome, bool(reusable))


DECODE_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors raised while reading a value that Karenina did not write."""


def sum_ledger_lines(path: Path, rows: Sequence[Sequence[Any]]) -> list[LedgerLine]:
    """Return the sums of the rows of `spent` over all sessions, by model, stage and judge. Raises `JournalDamaged` if a
    row is damaged.
    """
    lines: dict[tuple[str, ...], LedgerLine] = {}
    for row in rows:
        if not is_intact("spent", row) or not all(type(count) is int for count in row[6:-1]):
            raise_damaged(path, "spent", f"the row of session {row[0]} and model {row[1]!r}")
        model, interface, model_name, stage, judge = (str(name) for name in row[1:6])
        line = LedgerLine(model, interface, model_name, stage, judge)
        lines.setdefault(line.names, line).spent.merge(SpendCounts(*row[6:-1]))
    return [lines[names] for names in sorted(lines, key=lambda names: (names[0], names[3], names[4]))]


def read_run_row(path: Path, row: Sequence[Any] | None) -> StoredRun | None:
    """Return the run in a row of `runs`, or None if `row` is None. Raises `JournalDamaged` if the row is damaged."""
    if row is None:
        return None
    id, began, ended, items, _, text, _ = row
    try:
        command = json.loads(text) if is_intact("runs", row) else None
    except DECODE_ERRORS:
        command = None
    times = [began] if ended is None else [began, ended]
    in_time = all(isinstance(moment, float) and 0 <= moment < _END_OF_TIME for moment in times)
    if not (_is_command(command) and type(items) is int and 0 <= items <= _MOST and in_time):
        raise_damaged(path, "runs", f"row {id}")
    return StoredRun(id, began, ended, items, command)


def _is_command(command: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value has the structure of a stored command, which is empty for a run that was started without
    one.
    """
    if not isinstance(command, dict):
        return False
    if not command:  # the run was started without one
        return True
    texts = [command.get(name) for name in ("folder", "benchmark", "content", "config_file", "output")]
    questions, config = command.get("questions"), command.get("config")
    if not isinstance(config, dict):
        return False
    models = [config.get(name) or [] for name in ("answering_models", "parsing_models")]
    return (
        all(text is None or isinstance(text, str) for text in texts)
        and (questions is None or (isinstance(questions, list) and all(isinstance(id, str) for id in questions)))
        and all(isinstance(some, list) and all(map(_is_model, some)) for some in models)
    )


def _is_model(model: object) -> bool:
    """Return whether a value has the structure of a model in a stored command."""
    return isinstance(model, dict) and isinstance(model.get("id"), str)


def raise_damaged(path: Path, table: str, where: str) -> NoReturn:
    """Raise `JournalDamaged` for a row in a table. `where` describes the row."""
    raise JournalDamaged(path, f"{where} in its table {table!r} has changed since it was written")


def read_spent(text: str) -> tuple[float, int | None]:
    """Return the seconds and the cost in picodollars of the answered requests, from the end of a reply's JSON text.
    Returns 0.0 and None if the text does not contain them because an older version wrote it.
    """
    start = text.rfind(f',"{_ANSWERED}":')
    try:
        values = json.loads(f"{{{text[start + 1 :]}") if start >= 0 else {}
    except ValueError:  # the key belongs to the reply itself
        values = {}
    return _spent_in(values)


def _spent_in(values: Mapping[str, Any]) -> tuple[float, int | None]:
    """Return `read_spent` for a reply's parsed JSON."""
    cost = values.get(_COST)
    return float(values.get(_ANSWERED, 0.0)), cost if type(cost) is int else None


def _counts(text: str) -> dict[str, int]:
    """Parse the numbers of retries by category. Raises `ValueError` if one of them is not an integer."""
    counts: Mapping[str, Any] = json.loads(text)
    if not all(type(count) is int for count in counts.values()):
        raise ValueError("a retry count must be an integer")
    return dict(counts)


class BloomFilter:
    """A Bloom filter for keys that are digests.

    It never misses a key that was added, but it may also report a key that was never added.
    """

    def __init__(self) -> None:
        self._bits = bytearray(_FILTER_BITS // 8)

    def add(self, key: bytes) -> None:
        """Add a key of at least 4 bytes."""
        number = int.from_bytes(key[:4], "big") % _FILTER_BITS
        self._bits[number >> 3] |= 1 << (number & 7)

    def __contains__(self, key: bytes) -> bool:
        """Return False if the key was never added, and True if it probably was."""
        number = int.from_bytes(key[:4], "big") % _FILTER_BITS
        return bool(self._bits[number >> 3] & (1 << (number & 7)))
