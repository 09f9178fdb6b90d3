"""The contract for every run executor."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from pydantic import BaseModel

from karenina_core.data.outcome import Outcome
from karenina_testing.contracts.installed.run import GENES, RunContract, SampleRun
from karenina_testing.server import ScriptedServer, faults

_TIME_IS_OVER: Final = 124
_RUN_TIMEOUT: Final = 3.0
_LATENCY: Final = 60.0
"""Seconds before each reply; a run that is stopped must not wait for it."""


class AnyExecutor(Protocol):
    """The fields of a `karenina_engine.run.executor.Executor` that the contract reads."""

    @property
    def name(self) -> str:
        """The value of the setting `executor` that selects it."""

    @property
    def description(self) -> str:
        """A one-line description."""

    @property
    def settings(self) -> type[BaseModel] | None:
        """Its settings model, if it has settings."""


class ExecutorContract(RunContract):
    """The contract for an executor: set `executor`, and in `settings` the configuration that it needs."""

    executor: ClassVar[AnyExecutor]

    def executed(self, folder: Path, *options: str, **settings: Any) -> SampleRun:
        """Run the sample benchmark with the executor and return how the run ended."""
        return self.run(folder, *options, **{**self.settings, "executor": self.executor.name, **settings})

    def test_it_has_a_name_and_a_description(self) -> None:
        assert self.executor.name == self.executor.name.strip() != ""
        assert self.executor.description.strip()

    def test_its_settings_change_no_result(self) -> None:
        fields = self.executor.settings.model_fields if self.executor.settings is not None else {}
        marks = {name: field.json_schema_extra for name, field in fields.items()}
        wrong = [
            name for name, mark in marks.items() if not isinstance(mark, dict) or mark.get("changes_results", True)
        ]
        assert wrong == [], "mark them: json_schema_extra={'changes_results': False}"

    def test_a_run_has_the_results_of_asyncio(self, tmp_path: Path) -> None:
        runs = []
        for folder, name in ((tmp_path / "first", self.executor.name), (tmp_path / "second", "asyncio")):
            folder.mkdir()
            runs.append(self.executed(folder, executor=name, replicate_count=2))
        assert runs[0].code == runs[1].code == 0, runs[0].err
        assert Counter(one.item for one in runs[0].results) == Counter(one.item for one in runs[1].results)
        assert runs[0].by_item == runs[1].by_item

    def test_stored_results_are_kept(self, tmp_path: Path) -> None:
        """A run that continues an earlier run's journal runs only the items that are missing from it."""
        first = self.executed(tmp_path)
        again = self.executed(tmp_path, replicate_count=2)
        kept = {one.item: one.metadata.timestamp for one in again.results}
        assert [one.item for one in first.results if kept.get(one.item) != one.metadata.timestamp] == []
        assert len(again.results) == 2 * len(first.results)

    def test_a_failure_ends_one_item_only(self, tmp_path: Path) -> None:
        with ScriptedServer(
            {id: f"It is {gene}." for id, gene in GENES.items()} | {"imatinib": faults.status(400)}
        ) as server:
            run = self.executed(tmp_path, "--answering", f"openai:m@{server.url}/v1")
        outcomes = {one.question_id: one.outcome for one in run.results}
        assert len(run.results) == len(GENES)
        assert not outcomes.pop("imatinib").judged
        assert set(outcomes.values()) == {Outcome.CORRECT}

    def test_a_run_that_is_stopped_ends_soon_and_can_be_continued(self, tmp_path: Path) -> None:
        with ScriptedServer({id: f"It is {gene}." for id, gene in GENES.items()}) as server:
            model = "--answering", f"openai:m@{server.url}/v1"
            server.latency, began = _LATENCY, time.monotonic()
            stopped = self.executed(tmp_path, *model, run_timeout=_RUN_TIMEOUT)
            assert stopped.code == _TIME_IS_OVER, stopped.err
            assert time.monotonic() - began < _LATENCY, "it waits for calls: add a listener (session.add_stop_listener)"
            server.latency = 0
            ended = self.executed(tmp_path, *model)
        assert ended.code == 0, ended.err
        assert sorted(one.question_id for one in ended.results) == sorted(GENES)
