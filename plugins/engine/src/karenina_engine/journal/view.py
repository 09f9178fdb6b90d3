"""Read-only access to a journal, even while another process is using it."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import ItemId
from karenina_core.text import compose
from karenina_engine.calls.reply_json import load_error
from karenina_engine.journal.compression import RESULT_COLUMN, TextReader
from karenina_engine.journal.file import JournalError, is_locked, journal_errors, open_to_read, read_owner
from karenina_engine.journal.rows import DECODE_ERRORS, load_attachment, raise_damaged, read_run_row, sum_ledger_lines
from karenina_engine.journal.schema import ATTACHMENT, LAST_RUN, is_intact
from karenina_engine.results.result_file import (
    WITHOUT_WORK,
    default_journal,
    digest_run,
    read_header,
    recorded_answer,
    warn_about_left_out,
    why_not_recorded,
)
from karenina_engine.results.table_columns import CALLS, Column, Row, make_row
from karenina_engine.results.tables import Table
from karenina_toolkit.conversations import STAGE as CONVERSE

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.data.result import VerificationResult
    from karenina_core.models.attachments import Attachment
    from karenina_engine.cost.ledger import LedgerLine
    from karenina_engine.journal.rows import StoredRun

logger: Final = logging.getLogger("karenina")

_MOST_KEYS: Final = 500
"""The maximum number of replies to read at once."""
_ONE_ROW: Final = {
    "replies": "SELECT * FROM replies WHERE rowid = ?",
    "results": "SELECT * FROM results WHERE rowid = ?",
}
_OTHERS: Final = (
    "model, model_name, json_extract(reply, '$.model') AS served FROM replies "
    "WHERE failed = 0 AND calls > 0 AND port != 'service' AND served != model_name"
)


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a journal's last run, and totals over all of its runs.

    `done` is the number of `items` that have a result. `again` is the number of items that would run again because a
    call failed or a stage raised an error. `failures` counts stored call errors by `ErrorCategory`. `unusable` counts
    replies that were cut off or whose workspace no longer exists. `calls` and the numbers of tokens are totals over all
    stored replies, and `spent` is the ledger of all runs. `pid` is the id of the process using the journal, 0 if its id
    is unknown, or None if there is no such process. `version` is the version of the core that created the journal, and
    `distributions` contains the versions that the last run used.
    """

    items: int
    done: int
    again: int
    outcomes: Mapping[str, int]
    replies: int
    unusable: int
    failures: Mapping[str, int]
    calls: int
    input_tokens: int
    output_tokens: int
    began: float | None
    ended: float | None
    pid: int | None
    version: str
    distributions: Mapping[str, str] = field(default_factory=dict)
    spent: Sequence[LedgerLine] = ()


class ServedReplies(NamedTuple):
    """The replies to the model with this id, which was requested as `asked`, that state the model `served`."""

    id: str
    asked: str
    served: str


class JournalView:
    """A journal opened for reading. Other processes may be using it at the same time."""

    def __init__(self, path: str | Path) -> None:
        """Open the journal. Raises `JournalError` if it is damaged, has another format or is not a journal."""
        self.path = Path(path)
        self._database = open_to_read(self.path)
        self._texts = TextReader(lambda: self._database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._database.close()

    def command(self) -> dict[str, Any] | None:
        """Return the last run's command, or None if there was no run. It is only a label: do not run it, since the
        journal may come from anyone. Like all methods of this class, this raises `JournalDamaged` if the data that it
        reads is damaged.

        See `karenina_engine.journal.command`.
        """
        run = read_run_row(self.path, self._one(LAST_RUN))
        return run.command if run is not None else None

    def id(self) -> object:
        """Return the journal's id, or None if it has none."""
        row = self._one("SELECT value FROM meta WHERE name = 'id'")
        return row[0] if row is not None else None

    def attachments(self) -> dict[str, Attachment]:
        """Return what the journal states about attached files, by path as written. Damaged entries are ignored."""
        rows = self._all("SELECT name, value FROM meta WHERE name GLOB ?", f"{ATTACHMENT}*")
        paths = [(str(name).removeprefix(ATTACHMENT), value) for name, value in rows]
        found = [(path, load_attachment(value, Path(path).name)) for path, value in paths]
        return {path: attachment for path, attachment in found if attachment is not None}

    def run_digest(self) -> str | None:
        """Return the id of the last run, as used in result files. Returns None if there was no run."""
        run = read_run_row(self.path, self._one(LAST_RUN))
        return digest_run(self.id(), run.id) if run is not None else None

    def progress(self) -> tuple[int, int]:
        """Return how many items of the last run have a result, and how many it has."""
        run = read_run_row(self.path, self._one(LAST_RUN))
        if run is None:
            return 0, 0
        ((done,),) = self._all("SELECT count(*) FROM results WHERE run = ?", run.id)
        return done, run.items

    def status(self) -> Status:
        """Return the status of the last run, with counts of all calls in the journal. Although this only reads the
        journal, it removes a lock file that a killed process left behind.
        """
        run = read_run_row(self.path, self._one(LAST_RUN))
        with self._damage("replies"):
            return self._status(run)

    def _status(self, run: StoredRun | None) -> Status:
        """Return the journal's status: the items and outcomes are those of the given run, but the calls, tokens,
        failures and spending are those of all runs. `run` is None if the journal has no runs.
        """
        rows = self._all(
            "SELECT outcome, again, count(*) FROM results WHERE run = ? GROUP BY 1, 2", run.id if run is not None else 0
        )
        outcomes: Counter[str] = Counter()
        for outcome, _, count in rows:
            outcomes[outcome] += count
        spent = self._one(
            "SELECT count(*), total(reusable = 0 AND failed = 0), total(calls), total(input_tokens), "
            "total(output_tokens) FROM replies"
        )
        assert spent is not None
        version = self._one("SELECT value FROM meta WHERE name = 'karenina'")
        return Status(
            items=run.items if run is not None else 0,
            done=sum(outcomes.values()),
            again=sum(count for _, again, count in rows if again),
            outcomes={kind.value: outcomes[kind.value] for kind in Outcome if outcomes[kind.value]},
            replies=int(spent[0]),
            unusable=int(spent[1]),
            failures=self._failures(),
            calls=int(spent[2]),
            input_tokens=int(spent[3]),
            output_tokens=int(spent[4]),
            began=run.began if run is not None else None,
            ended=run.ended if run is not None else None,
            pid=(read_owner(self.path) or 0) if is_locked(self.path) else None,
            version=str(version[0]) if version is not None else "",
            distributions=_distributions(run.command) if run is not None else {},
            spent=self.spent(),
        )

    def _failures(self) -> dict[str, int]:
        """Return the number of failed calls by `ErrorCategory`."""
        failures: Counter[str] = Counter()
        for row in self._rows("replies", "SELECT rowid FROM replies WHERE failed"):
            with self._damage("replies", row):
                failures[load_error(row[19]).category.value] += 1
        return dict(failures)

    def spent(self) -> list[LedgerLine]:
        """Return the totals over all runs, by model, stage and judge."""
        return sum_ledger_lines(self.path, self._all("SELECT * FROM spent"))

    def count_reusable_calls(self, answers: Set[tuple[str, int]]) -> dict[tuple[str, str], int]:
        """Count the reusable calls for the given answers, by model id and stage. `answers` contains pairs of a question
        id and a replicate.
        """
        counts: Counter[tuple[str, str]] = Counter()
        for question, replicate, model, stage, calls in self._all(
            "SELECT question_id, replicate, model, stage, calls FROM replies WHERE reusable AND NOT failed AND calls"
        ):
            if (question, replicate) in answers:
                with self._damage("replies"):
                    counts[model, stage] += calls
        return counts

    def results(self, model: str | None = None) -> Iterator[str]:
        """Yield the results of the last run as JSON, in matrix order. Default values may be omitted. Set `model` to the
        id of an answering model to get only that model's results.
        """
        last = "SELECT rowid FROM results WHERE run = (SELECT max(id) FROM runs) ORDER BY run, place"
        for row in self._rows("results", last):
            if model in (None, row[3]):
                yield row[RESULT_COLUMN]

    def results_of(self, questions: Sequence[str]) -> Iterator[tuple[ItemId, str]]:
        """Yield the last run's results for the given questions, in the order of `questions`, as pairs of an item and
        its JSON. Journals of earlier versions may contain several results of an item in one run; the last one that is
        yielded is valid. Raises `JournalDamaged` at a damaged result.
        """
        run = self._one("SELECT max(id) FROM runs")
        for id in questions:
            for row in self._all(
                "SELECT * FROM results INDEXED BY results_by_item WHERE question_id = ? AND run = ? ORDER BY time",
                *(id, run[0] if run is not None else None),
            ):
                read = self._with_text(row)
                if not is_intact("results", read):
                    raise_damaged(self.path, "results", f"a result for question {id!r}")
                yield ItemId.of(*read[2:6]), read[RESULT_COLUMN]

    def has_other_text(self, question: Question) -> bool:
        """Return whether the question's text differs from that in the newest result with its id, in any run, so that
        stored replies about it cannot be used. Returns False if there is no result.
        """
        newest = "SELECT * FROM results INDEXED BY results_by_item WHERE question_id = ? ORDER BY time DESC LIMIT 1"
        row = self._one(newest, question.id)
        if row is None:
            return False
        with self._damage("results"):
            text = json.loads(self._with_text(row)[RESULT_COLUMN])["metadata"].get("question_text", "")
        return bool(compose(text) != compose(question.question))

    def served_models(self) -> list[ServedReplies]:
        """Return the models that replies state where they differ from the requested name."""
        return [ServedReplies(*row) for row in self._all(f"SELECT DISTINCT {_OTHERS}")]

    def calls_served(self, replies: Set[ServedReplies]) -> dict[str, ServedReplies]:
        """Return the keys of the calls with such replies, each with what its reply states."""
        rows = self._all(f"SELECT lower(hex(key)), {_OTHERS}") if replies else ()
        return {key: found for key, *names in rows if (found := ServedReplies(*names)) in replies}

    def count_results(self) -> Counter[str]:
        """Return the number of results in the last run, by question id."""
        counts = self._all(
            "SELECT question_id, count(*) FROM results WHERE run = (SELECT max(id) FROM runs) GROUP BY question_id"
        )
        return Counter(dict(counts))

    def first_questions(self, most: int) -> list[str]:
        """Return the question ids of the first `most` results in the last run. Ids may be repeated."""
        first = "SELECT question_id FROM results WHERE run = (SELECT max(id) FROM runs) ORDER BY place LIMIT ?"
        return [row[0] for row in self._all(first, most)]

    def recordings(self, model: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the answers of the last run, of all answering models or only of the one with the id `model`, as
        recordings without duplicates, followed by answers that no result uses. Failed calls are omitted, and so are
        conversations that broke off or have no result, and answers judged by the files that they changed; warnings
        state how many.

        Each answer has `question_id`, `question` (only if a result uses the answer), `replicate`, `model` (the
        answering model's id), and either `text` or, for an agent, `trace`, whose messages have the form of
        `Message.to_dict`, with how it ended (see `recorded_answer`). A journal contains only the model's side of the
        conversations that are omitted.
        """
        seen: set[tuple[str, str, int]] = set()
        left_out: dict[tuple[str, str, int], str] = {}
        for line in self.results(model):
            with self._damage("results"):
                result = json.loads(line)
                meta = result["metadata"]
                answer = (meta["question_id"], meta["answering_id"], meta.get("replicate") or 1)
                if (why := why_not_recorded(result)) is not None:
                    left_out[answer] = why
                    continue
                recorded = recorded_answer(result)
            if answer not in seen:
                seen.add(answer)
                yield recorded
        answers = (
            "SELECT max(rowid) FROM replies WHERE task = 'answer_generation' AND port IN ('llm', 'agent') "
            "AND NOT failed AND stage <> ? GROUP BY question_id, model, replicate ORDER BY 1"
        )
        for row in self._rows("replies", answers, CONVERSE):
            answer = (row[7], row[2], row[8])
            if answer in seen or left_out.get(answer) == WITHOUT_WORK or model not in (None, row[2]):
                continue
            with self._damage("replies", row):
                reply = json.loads(row[19])
                content = {"text": reply["text"]} if row[1] == "llm" else {"trace": reply["trace"]}
                ends = {key: reply[key] for key in ("finish_reason", "limit_reached") if key in reply}
            seen.add(answer)
            yield {**_named(answer), **content, **ends}
        talks = self._all("SELECT DISTINCT question_id, model, replicate FROM replies WHERE stage = ?", CONVERSE)
        missing = sum(answer not in seen | left_out.keys() and model in (None, answer[1]) for answer in talks)
        if missing:
            logger.warning(
                "%s without a result %s left out; finish the run with `karenina resume %s` to export %s",
                "1 conversation" if missing == 1 else f"{missing} conversations",
                "is" if missing == 1 else "are",
                quote(str(self.path)),
                "it" if missing == 1 else "them",
            )
        warn_about_left_out(why for answer, why in left_out.items() if answer not in seen)

    def calls(self) -> Table:
        """Return a table of all stored calls, in the order in which they were stored. `CALLS` lists its columns."""
        return Table("calls", CALLS, self._calls)

    def calls_of(self, results: Sequence[VerificationResult], only: Set[str] = frozenset()) -> list[list[Row]]:
        """Return, for each of the given results, a list of its rows of `calls`, without duplicates. `only` contains the
        names of the columns; by default, the rows have all of them. Calls that are not in the journal are skipped.
        """
        keys = [dict.fromkeys(key for stage in result.stages for key in stage.call_keys) for result in results]
        columns = [column for column in CALLS if not only or column.name in only]
        wanted = list(dict.fromkeys(bytes.fromhex(key) for of_result in keys for key in of_result))
        found: dict[bytes, Row] = {}
        for start in range(0, len(wanted), _MOST_KEYS):
            some = wanted[start : start + _MOST_KEYS]
            query = f"SELECT rowid, * FROM replies WHERE key IN ({', '.join('?' * len(some))})"  # noqa: S608
            for id, *row in self._all(query, *some):
                found[row[0]] = self._call(self._intact("replies", row, id), columns)
        return [[found[key] for key in map(bytes.fromhex, of_result) if key in found] for of_result in keys]

    def _calls(self) -> Iterator[Row]:
        return map(self._call, self._rows("replies", "SELECT rowid FROM replies ORDER BY rowid"))

    def _call(self, row: Sequence[Any], columns: Iterable[Column[Sequence[Any]]] = CALLS) -> Row:
        """Convert a row of `replies` to a row of `calls`. Raises `JournalDamaged` if a value cannot be read."""
        with self._damage("replies", row):
            return make_row(columns, row)

    def _rows(self, table: str, query: str, *values: Any) -> Iterator[Sequence[Any]]:
        """Yield the rows whose ids `query` selects, one at a time. Raises `JournalDamaged` if a row is damaged. Rows
        that have been deleted in the meantime are skipped.
        """
        for (id,) in self._all(query, *values):
            row = self._one(_ONE_ROW[table], id)
            if row is not None:
                yield self._intact(table, self._with_text(row) if table == "results" else row, id)

    def _intact(self, table: str, row: Sequence[Any], id: int) -> Sequence[Any]:
        """Return `row` if it is intact. Otherwise, raise `JournalDamaged` with the row's `id`."""
        if not is_intact(table, row):
            raise_damaged(self.path, table, f"row {id}")
        return row

    def _with_text(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """Return a row of `results` with its text decompressed."""
        with journal_errors(self.path, "read"):
            return self._texts.read_row(row)

    @contextmanager
    def _damage(self, table: str, row: Sequence[Any] = ()) -> Iterator[None]:
        """Convert errors raised in the `with` block while reading a value to `JournalDamaged`. Pass `row` if the
        message should include its question.
        """
        try:
            yield
        except DECODE_ERRORS:
            raise_damaged(self.path, table, f"a row of question {row[7]!r}" if row else "a row")

    def _one(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        """Return the first row that a query finds, or None if it finds none."""
        with journal_errors(self.path, "read"):
            row: tuple[Any, ...] | None = self._database.execute(query, values).fetchone()
            return row

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with journal_errors(self.path, "read"):
            return self._database.execute(query, values).fetchall()


def find_journal(results: Path) -> Path | None:
    """Return the journal next to a result file whose last run wrote that file, or None if there is none. It is
    identified by the run id in the file's header, so it may have any name. Unreadable journals are ignored.
    """
    run = read_header(results).get("id")
    if not isinstance(run, str):
        return None
    usual = default_journal(results)
    for path in dict.fromkeys([usual, *sorted(results.parent.glob("*.journal"))]):
        with suppress(JournalError), JournalView(path) as view:
            if view.run_digest() == run:
                return path
    return None


def _distributions(command: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of the distributions listed in a command. The dict is empty if none are listed."""
    versions = command.get("distributions")
    return {name: str(version) for name, version in versions.items()} if isinstance(versions, dict) else {}


def _named(answer: tuple[str, str, int]) -> dict[str, Any]:
    """Return the parts that identify an answer as a table."""
    question_id, model, replicate = answer
    return {"question_id": question_id, "replicate": replicate, "model": model}
