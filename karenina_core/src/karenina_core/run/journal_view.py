"""A look at a journal, also while a process works on it: what is done, what was found out, and the answers."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from karenina_core.outcome import Outcome
from karenina_core.run.journal_file import is_held, open_to_read, telling, worker
from karenina_core.run.ledger import SPENT, Line, line_of

if TYPE_CHECKING:
    from types import TracebackType

ItemId = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True)
class Status:
    """How far the last run of a journal is, and what the journal holds of all its runs.

    `done` of `items` have a result; `again` of them would run again, because a call failed or a stage broke.
    `failures` counts kept calls that failed, by `ErrorCategory`; `unusable` are replies that were cut off, or belong
    to a workspace that is gone. `calls` and tokens are those of all kept replies. `pid` is that of the process that
    works on it now (0 where it is not known), None where none does. `spent` is what all runs together have spent.
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
    spent: Sequence[Line] = ()


class JournalView:
    """A journal, open to look at. Nothing is written, and nobody is kept from working on it."""

    def __init__(self, path: str | Path) -> None:
        """Raises `JournalError` for a file that is no journal, is damaged, or of a newer format."""
        self.path = Path(path)
        self._database = open_to_read(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def command(self) -> dict[str, Any] | None:
        """What the last run was started with (`karenina_core.run.command`); None where there was none."""
        row = self._one("SELECT command FROM runs ORDER BY id DESC LIMIT 1")
        return json.loads(row[0]) if row is not None else None

    def status(self) -> Status:
        """How far the last run is."""
        run = self._one("SELECT id, items, began, ended FROM runs ORDER BY id DESC LIMIT 1") or (0, 0, None, None)
        found = self._all("SELECT outcome, again, count(*) FROM results WHERE run = ? GROUP BY 1, 2", run[0])
        outcomes: Counter[str] = Counter()
        for outcome, _, count in found:
            outcomes[outcome] += count
        spent = self._one(
            "SELECT count(*), total(reusable = 0 AND failed = 0), total(calls), total(input_tokens), "
            "total(output_tokens) FROM replies"
        )
        assert spent is not None
        failures = self._all("SELECT json_extract(reply, '$.category'), count(*) FROM replies WHERE failed GROUP BY 1")
        version = self._one("SELECT value FROM meta WHERE name = 'karenina'")
        return Status(
            items=run[1],
            done=sum(outcomes.values()),
            again=sum(count for _, again, count in found if again),
            outcomes={one.value: outcomes[one.value] for one in Outcome if outcomes[one.value]},
            replies=int(spent[0]),
            unusable=int(spent[1]),
            failures=dict(failures),
            calls=int(spent[2]),
            input_tokens=int(spent[3]),
            output_tokens=int(spent[4]),
            began=run[2],
            ended=run[3],
            pid=(worker(self.path) or 0) if is_held(self.path) else None,
            version=version[0] if version is not None else "",
            spent=self.spent(),
        )

    def spent(self) -> list[Line]:
        """What all runs together have spent, by model, stage and judge."""
        return [line_of(row) for row in self._all(SPENT)]

    def kept_calls(self, answers: Set[tuple[str, int]]) -> dict[tuple[str, str], int]:
        """How many calls for these answers (question and replicate) have a reply that may be used again.

        By the model's id and the stage.
        """
        found: Counter[tuple[str, str]] = Counter()
        for question, replicate, model, stage, calls in self._all(
            "SELECT question_id, replicate, model, stage, calls FROM replies WHERE reusable AND NOT failed AND calls"
        ):
            if (question, replicate) in answers:
                found[model, stage] += calls
        return found

    def results(self) -> Iterator[str]:
        """The JSON lines of the last run's results, in the order of its matrix."""
        rows = self._all(
            "SELECT rowid FROM results WHERE run = (SELECT max(id) FROM runs) ORDER BY run, place",
        )
        for (row,) in rows:
            found = self._one("SELECT result FROM results WHERE rowid = ?", row)
            if found is not None:
                yield found[0]

    def results_of(self, questions: Sequence[str]) -> Iterator[tuple[ItemId, str]]:
        """The JSON lines of the last run's results about these questions, each with its item.

        An item has two where its fingerprint changed during the run; the one that holds comes last.
        """
        run = self._one("SELECT max(id) FROM runs")
        for id in questions:
            for *item, text in self._all(
                "SELECT question_id, answering, judge, replicate, result FROM results INDEXED BY results_by_item "
                "WHERE question_id = ? AND run = ? ORDER BY time",
                *(id, run[0] if run is not None else None),
            ):
                yield (item[0], item[1], item[2], item[3]), text

    def asked(self) -> Counter[str]:
        """How many results of the last run are about each question, by its id."""
        counts = self._all(
            "SELECT question_id, count(*) FROM results WHERE run = (SELECT max(id) FROM runs) GROUP BY question_id"
        )
        return Counter(dict(counts))

    def recordings(self, model: str | None = None) -> Iterator[dict[str, Any]]:
        """The answers that the last run got, each once, in the order of its matrix; then those that no item has used.

        Each has `question_id`, `question`, `replicate`, `model` (the answering model's id), and `text` or, of an
        agent, `trace`: its messages as `Message.to_dict` gives them. `model` chooses one model's. An answer that never
        came is left out.
        """
        seen: set[tuple[str, str, int]] = set()
        for line in self.results():
            result = json.loads(line)
            meta, template = result["metadata"], result["template"]
            answer = (meta["question_id"], meta["answering_id"], meta["replicate"] or 1)
            if answer in seen or model not in (None, meta["answering_id"]):
                continue
            if result["outcome"] == Outcome.MODEL_ERROR.value:
                continue
            seen.add(answer)
            trace = template["trace_messages"]
            said = {"trace": trace} if trace else {"text": template["raw_llm_response"]}
            yield {**_named(answer), "question": meta["question_text"], **said}
        for question_id, id, replicate, port, text in self._all(
            "SELECT question_id, model, replicate, port, reply FROM replies WHERE task = 'answer_generation' "
            "AND port IN ('llm', 'agent') AND NOT failed ORDER BY rowid"
        ):
            if (question_id, id, replicate) not in seen and model in (None, id):
                reply = json.loads(text)
                yield {
                    **_named((question_id, id, replicate)),
                    **({"text": reply["text"]} if port == "llm" else {"trace": reply["trace"]}),
                }

    def _one(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        with telling(self.path, "read"):
            found: tuple[Any, ...] | None = self._database.execute(query, values).fetchone()
            return found

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with telling(self.path, "read"):
            cursor: sqlite3.Cursor = self._database.execute(query, values)
            return cursor.fetchall()


def _named(answer: tuple[str, str, int]) -> dict[str, Any]:
    question_id, model, replicate = answer
    return {"question_id": question_id, "replicate": replicate, "model": model}
