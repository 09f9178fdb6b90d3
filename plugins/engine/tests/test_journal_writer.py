"""Tests of writes to a journal: every task that waits for a row goes on, whatever happens to the row or the file."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

from karenina_core.errors import KareninaError
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, CallNotes, LLMReply, PortError, Usage
from karenina_core.plugins import Plugins
from karenina_engine.calls.call import Call, CallOutcome, Endpoint
from karenina_engine.cost.ledger import Ledger, LedgerLine, PriceTable
from karenina_engine.journal.file import open_to_write
from karenina_engine.journal.journal import Journal, JournalError
from karenina_engine.journal.rows import UnstorableRow
from karenina_engine.journal.writer import JournalWriter

PATIENCE = 20.0
"""Seconds after which a task that waits is taken to wait for ever."""
INSERT = "INSERT INTO meta VALUES (?, ?)"


def call(question: str, model: str = "m") -> Call:
    target = Endpoint(
        "llm", ModelConfig(id=model, interface="scripted", model_name=model), "scripted", {}, by_item=True
    )
    return Call(target, (), CallInfo(question_id=question))


def made(text: str = "BCL2", usage: Usage = Usage(7, 3, calls=1), finish: Any = "stop") -> CallOutcome:  # noqa: B008
    return CallOutcome(LLMReply(text, usage, finish), None, CallNotes())


def questions(journal: Path) -> list[str]:
    with closing(sqlite3.connect(journal)) as database:
        return [id for (id,) in database.execute("SELECT question_id FROM replies ORDER BY 1")]


@pytest.mark.parametrize(
    "odd",
    [
        made(usage=Usage(2**63, 3, calls=1)),
        made(usage=Usage("many", 3, calls=1)),  # type: ignore[arg-type]
        made(finish="stop\ud800"),
        made(finish=["stop"]),
        made(finish=2**70),
    ],
    ids=["2^63 tokens", "text for a count", "half a pair", "list", "2^70"],
)
def test_reply_that_no_journal_can_hold_costs_its_own_call(tmp_path: Path, odd: CallOutcome) -> None:
    async def stored(journal: Journal) -> list[BaseException | None]:
        replies = (("a", made()), ("odd", odd), ("b", made()))
        tasks = (journal.store(call(question), reply) for question, reply in replies)
        async with asyncio.timeout(PATIENCE):
            return await asyncio.gather(*tasks, return_exceptions=True)

    with Journal.open(tmp_path / "j.journal") as journal:
        first, second, third = asyncio.run(stored(journal))
        assert journal.broken is None
    assert (first, third) == (None, None)
    assert isinstance(second, PortError)
    assert "the reply from 'm' (scripted:m) could not be stored in the journal" in str(second)
    assert questions(tmp_path / "j.journal") == ["a", "b"]


class Failing(dict[int, LedgerLine]):
    """Lines of a ledger whose reading raises."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def values(self) -> NoReturn:
        raise self._error


def ledger(changed: dict[int, LedgerLine]) -> Ledger:
    return Ledger(PriceTable(Plugins(), {}), changed=changed)


UNKNOWN = LedgerLine("m", "scripted", "m", "Stage", object())  # type: ignore[arg-type]


@pytest.mark.parametrize("changed", [Failing(MemoryError()), {1: UNKNOWN}], ids=["no memory", "no type"])
def test_any_error_of_a_flush_reaches_every_task_that_waits(tmp_path: Path, changed: dict[int, LedgerLine]) -> None:
    async def errors(writer: JournalWriter) -> list[BaseException | None]:
        writer.ledger = ledger(changed)
        async with asyncio.timeout(PATIENCE):
            return await asyncio.gather(*(writer.write(INSERT, (name, 1)) for name in "abc"), return_exceptions=True)

    with closing(open_to_write(tmp_path / "j.journal")) as database:
        writer = JournalWriter(tmp_path / "j.journal", database)
        found = asyncio.run(errors(writer))
        assert all(isinstance(error, JournalError) for error in found)
        assert len(found) == 3
        assert writer.broken is found[0]
        writer.broken = writer.ledger = None
        writer.flush()
        kept = {name for (name,) in database.execute("SELECT name FROM meta")}
    assert kept >= {"a", "b", "c"}, "what could not be written is written by the next flush"


def test_bad_row_does_not_spoil_the_next_flush(tmp_path: Path) -> None:
    async def written(writer: JournalWriter) -> list[BaseException | None]:
        rows = ((INSERT, ("a", 1)), (INSERT, ("b", 2**63)), (INSERT, ("c", "half \ud800")), (INSERT, ("d", 4)))
        async with asyncio.timeout(PATIENCE):
            first = await asyncio.gather(*(writer.write(*row) for row in rows), return_exceptions=True)
            return [*first, await writer.write(INSERT, ("e", 5))]

    with closing(open_to_write(tmp_path / "j.journal")) as database:
        found = asyncio.run(written(JournalWriter(tmp_path / "j.journal", database)))
        kept = {name for (name,) in database.execute("SELECT name FROM meta")}
    assert [type(error) for error in found] == [type(None), UnstorableRow, UnstorableRow, type(None), type(None)]
    assert all(isinstance(error, KareninaError) for error in found if error is not None)
    assert {"a", "d", "e"} <= kept
    assert not {"b", "c"} & kept


def test_row_of_an_interrupted_flush_is_written_next(tmp_path: Path) -> None:
    async def written(writer: JournalWriter) -> None:
        writer.ledger = ledger(Failing(KeyboardInterrupt()))
        waiting = writer.write(INSERT, ("a", 1))
        with pytest.raises(KeyboardInterrupt):
            writer.flush()
        writer.ledger = None
        writer.flush()
        async with asyncio.timeout(PATIENCE):
            await waiting

    with closing(open_to_write(tmp_path / "j.journal")) as database:
        asyncio.run(written(JournalWriter(tmp_path / "j.journal", database)))


@pytest.mark.parametrize(("sync", "level"), [("normal", 1), ("full", 2)])
def test_journal_sync_chooses_what_a_commit_waits_for(tmp_path: Path, sync: Any, level: int) -> None:
    with closing(open_to_write(tmp_path / "j.journal", sync)) as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (level,)
