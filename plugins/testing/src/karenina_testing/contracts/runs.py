"""The contracts for plugins that take part in runs: observers, executors and panels."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Final, Protocol

from pydantic import BaseModel

from karenina_core.config import VerificationConfig
from karenina_core.data.outcome import Outcome
from karenina_core.data.result import ItemId, VerificationResult
from karenina_core.plugins import Plugins
from karenina_testing.contracts.command import run_command
from karenina_testing.contracts.plugin import PluginContract
from karenina_testing.server import Request, ScriptedServer, Side, faults

GENES: Final = {"venetoclax": "BCL2", "imatinib": "ABL1", "olaparib": "PARP1"}
"""The correct answers to the sample questions, by question id."""
_BENCHMARK: Final = "sample.yaml"
_RESULTS: Final = "sample.results.jsonl"
JOURNAL: Final = "sample.journal"
_TIME_IS_OVER: Final = 124
_RUN_TIMEOUT: Final = 3.0
_LATENCY: Final = 60.0
"""The delay of each reply in seconds. A stopped run must not wait for it."""
Opinion = Callable[[int, str], str | None]
"""A function that takes a judge's number and a question id, and returns the gene for the judge to extract.

If it returns None, the judge's call fails.
"""


@dataclass(frozen=True, slots=True)
class SampleRun:
    """A finished run's exit code, results and error output."""

    code: int
    results: list[VerificationResult]
    err: str

    @property
    def by_item(self) -> dict[ItemId, tuple[str, object]]:
        """Each item's outcome and field results."""
        return {result.item: (result.outcome.value, result.template.field_results) for result in self.results}


class RunContract(PluginContract):
    """The contract for plugins that take part in runs. `settings` is a configuration, as in a file."""

    settings: ClassVar[Mapping[str, Any]] = {}

    def run(self, folder: Path, *options: str, judged: bool = False, **settings: Any) -> SampleRun:
        """Run `karenina run` on the questions in `GENES`, configured with `settings`, and return its exit code, results
        and errors. Answers are recorded, and the last one is wrong, unless `options` select a model (`--answering`).
        They are searched for the gene or, with `judged`, read by a judge.
        """
        questions = [
            {"id": id, "question": f"Which gene is the target of {id}?", "answer": {"gene": _field(gene, judged)}}
            for id, gene in GENES.items()
        ]
        answers = {id: f"It is {gene}." for id, gene in GENES.items()} | {"olaparib": "It is TP53."}
        recorded = [json.dumps({"id": id, "response": text}) + "\n" for id, text in answers.items()]
        (folder / _BENCHMARK).write_text(json.dumps({"karenina": 1, "name": "Sample", "questions": questions}), "utf-8")
        (folder / "answers.jsonl").write_text("".join(recorded), "utf-8")
        (folder / "settings.json").write_text(json.dumps(settings), "utf-8")
        answering = () if "--answering" in options else ("--recordings", "answers.jsonl")
        command = ("run", _BENCHMARK, *answering, "--config", "settings.json", "--quiet", "--full", "-o", _RESULTS)
        done = run_command(folder, *command, *options, OPENAI_API_KEY="a-key")
        return SampleRun(done.code, read_results(folder / _RESULTS), done.err)


def _field(gene: str, judged: bool) -> dict[str, object]:
    """Return a field that a judge fills in or, without `judged`, one that searches for the gene."""
    if judged:
        return {"description": "The gene that the response names", "ground_truth": gene}
    primitive = {"type": "TraceContains", "substring": gene}
    return {"description": f"The response names {gene}", "ground_truth": True, "verify_with": primitive}


def read_results(file: Path) -> list[VerificationResult]:
    """Read the results of a run with `--full`. If the file does not exist, there are none."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return [VerificationResult.model_validate_json(line) for line in lines if line.startswith('{"metadata"')]


class ObserverContract(RunContract):
    """The contract for the observers that a plugin returns for `settings` (hook `karenina_observers`).

    Override `observed` to return a trace of the observers in the run's folder, such as the text of a file.
    """

    def observed(self, folder: Path) -> object:
        """Return the trace that the observers left in the run's folder, or None."""
        raise NotImplementedError

    def observers(self, **settings: Any) -> Sequence[object]:
        """Return the plugin's observers for the given configuration."""
        offered: Sequence[object] = resolve_name(self.entry_point).karenina_observers(
            config=VerificationConfig(**settings)
        )
        return offered

    def observed_run(self, folder: Path) -> SampleRun:
        """Run the sample benchmark with `settings`, and return what `run` returns. Fails if an observer fails."""
        run = self.run(folder, **self.settings)
        assert "an observer from" not in run.err, run.err
        assert "the observers of" not in run.err, run.err
        return run

    def test_only_the_configuration_turns_them_on(self, tmp_path: Path) -> None:
        assert list(self.observers()) == [], "return [] unless the configuration asks for an observer"
        assert list(self.observers(**self.settings)), "the plugin offers no observers although `settings` asks for them"
        self.run(tmp_path)
        assert self.observed(tmp_path) is None

    def test_each_observer_has_hooks_with_the_right_arguments(self) -> None:
        for observer in self.observers(**self.settings):
            room = Plugins(Plugins.discover().specifications)
            room.register(observer)  # raises for a hook of another name, or with other arguments
            hooks = [name for name in dir(observer) if name.startswith("karenina_")]
            assert hooks, f"{observer!r} has no method that is named after an event and marked with @hookimpl"

    def test_they_observe_a_run(self, tmp_path: Path) -> None:
        run = self.observed_run(tmp_path)
        assert len(run.results) == len(GENES)
        assert self.observed(tmp_path) is not None

    def test_a_run_has_the_same_results_with_them(self, tmp_path: Path) -> None:
        runs = []
        for name, settings in (("with", self.settings), ("without", {})):
            (tmp_path / name).mkdir()
            runs.append(self.run(tmp_path / name, **settings))
        assert runs[0].code == runs[1].code == 0, runs[0].err
        assert runs[0].by_item == runs[1].by_item

    def test_results_of_the_journal_are_no_error(self, tmp_path: Path) -> None:
        """If a result is already stored, observers receive the end of its item but not the start."""
        first, second = self.observed_run(tmp_path), self.observed_run(tmp_path)
        assert first.by_item == second.by_item

    def test_an_item_without_an_answer_is_no_error(self, tmp_path: Path) -> None:
        model = "openai:absent@http://127.0.0.1:1/v1"
        run = self.run(tmp_path, "--answering", model, "--no-journal", **self.settings, retry_connection=0)
        assert "an observer from" not in run.err, run.err
        assert [result.outcome.judged for result in run.results] == [False] * len(GENES), run.err


class AnyExecutor(Protocol):
    """The part of `karenina_engine.run.executor.Executor` that the contract uses."""

    name: ClassVar[str]
    """The value of the `executor` setting that selects this executor."""
    description: ClassVar[str]
    """A one-line description."""
    settings: ClassVar[type[BaseModel] | None]
    """The executor's settings model, or None if it has no settings."""


class ExecutorContract(RunContract):
    """The contract for an executor. Set `executor`, and `settings` if the executor needs any."""

    executor: ClassVar[AnyExecutor]

    def executed(self, folder: Path, *options: str, **settings: Any) -> SampleRun:
        """Run the sample benchmark with the executor."""
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
        assert wrong == [], "mark these settings with json_schema_extra={'changes_results': False}"

    def test_a_run_has_the_results_of_asyncio(self, tmp_path: Path) -> None:
        runs = []
        for folder, name in ((tmp_path / "first", self.executor.name), (tmp_path / "second", "asyncio")):
            folder.mkdir()
            runs.append(self.executed(folder, executor=name, replicate_count=2))
        assert runs[0].code == runs[1].code == 0, runs[0].err
        assert Counter(result.item for result in runs[0].results) == Counter(result.item for result in runs[1].results)
        assert runs[0].by_item == runs[1].by_item

    def test_stored_results_are_kept(self, tmp_path: Path) -> None:
        """A run that continues a journal only runs the items that are missing from it."""
        first = self.executed(tmp_path)
        again = self.executed(tmp_path, replicate_count=2)
        timestamps = {result.item: result.metadata.timestamp for result in again.results}
        assert [
            result.item for result in first.results if timestamps.get(result.item) != result.metadata.timestamp
        ] == []
        assert len(again.results) == 2 * len(first.results)

    def test_a_failure_ends_one_item_only(self, tmp_path: Path) -> None:
        with ScriptedServer(
            {id: f"It is {gene}." for id, gene in GENES.items()} | {"imatinib": faults.status(400)}
        ) as server:
            run = self.executed(tmp_path, "--answering", f"openai:m@{server.url}/v1")
        outcomes = {result.question_id: result.outcome for result in run.results}
        assert len(run.results) == len(GENES)
        assert not outcomes.pop("imatinib").judged
        assert set(outcomes.values()) == {Outcome.CORRECT}

    def test_a_run_that_is_stopped_ends_soon_and_can_be_continued(self, tmp_path: Path) -> None:
        with ScriptedServer({id: f"It is {gene}." for id, gene in GENES.items()}) as server:
            model = "--answering", f"openai:m@{server.url}/v1"
            server.latency, began = _LATENCY, time.monotonic()
            stopped = self.executed(tmp_path, *model, run_timeout=_RUN_TIMEOUT)
            assert stopped.code == _TIME_IS_OVER, stopped.err
            assert time.monotonic() - began < _LATENCY, (
                "a stopped run must not wait for calls; add a listener with session.add_stop_listener"
            )
            server.latency = 0
            ended = self.executed(tmp_path, *model)
        assert ended.code == 0, ended.err
        assert sorted(result.question_id for result in ended.results) == sorted(GENES)


class PanelContract(RunContract):
    """The contract for a panel of judges. `settings` enables the panel, and `judges` is the number of judges."""

    judges: ClassVar[int] = 3

    @contextmanager
    def served(self, opinion: Opinion) -> Iterator[tuple[ScriptedServer, list[str]]]:
        """Run a server on which each judge replies with the gene that `opinion` returns for the judge's number and a
        question, and yield it with the options that select the judges. If the gene is None, the call fails.
        """

        def reply(request: Request) -> Any:
            judge = int(request.fields["model"].rpartition("-")[2])
            question = next(id for id in GENES if id in request.text)
            gene = opinion(judge, question)
            return faults.status(400) if gene is None else json.dumps({"gene": gene})

        with ScriptedServer(judge=Side(reply)) as server:
            names = (f"openai:judge-{number}@{server.url}/judge/v1" for number in range(self.judges))
            yield server, [word for name in names for word in ("--judge", name)]

    def evaluated(self, folder: Path, opinion: Opinion, *, panel: bool = True) -> tuple[SampleRun, int]:
        """Run the benchmark, and return the run and the number of calls. Without `panel`, `settings` is not used."""
        with self.served(opinion) as (server, judges):
            run = self.run(folder, *judges, judged=True, **(self.settings if panel else {}))
        return run, len(server.log)

    def test_without_its_settings_each_judge_has_its_result(self, tmp_path: Path) -> None:
        run, _ = self.evaluated(tmp_path, _right, panel=False)
        assert len(run.results) == self.judges * len(GENES)

    def test_each_answer_has_one_result_with_the_name_of_the_panel(self, tmp_path: Path) -> None:
        run, calls = self.evaluated(tmp_path, _right)
        assert run.code == 0, run.err
        assert sorted(result.question_id for result in run.results) == sorted(GENES)
        (panel,) = {result.metadata.parsing_id for result in run.results}
        assert not panel.startswith("judge-"), "create the result with answer.result_of(self.model, ...)"
        counted = [(result.template.usage_metadata or {})["total"]["calls"] for result in run.results]
        assert sum(counted) == calls, "the result must count the calls of all judges that were asked"
        stages = [sum(stage.name == "GenerateAnswer" for stage in result.stages) for result in run.results]
        assert stages == [1] * len(GENES), "the answer's stages must be counted once"

    def test_judges_that_agree_decide(self, tmp_path: Path) -> None:
        run, _ = self.evaluated(tmp_path, lambda _judge, name: GENES[name] if name == "imatinib" else "TP53")
        verdicts = {result.question_id: result.outcome.passes for result in run.results}
        assert verdicts == {"venetoclax": False, "imatinib": True, "olaparib": False}
        assert all(result.outcome.has_verdict for result in run.results)

    def test_a_failing_judge_makes_no_answer_wrong(self, tmp_path: Path) -> None:
        run, _ = self.evaluated(tmp_path, lambda judge, name: None if judge == 0 else GENES[name])
        assert len(run.results) == len(GENES)
        assert [
            result.question_id for result in run.results if result.outcome.has_verdict and not result.outcome.passes
        ] == []

    def test_an_answer_that_no_judge_could_read_is_not_judged(self, tmp_path: Path) -> None:
        run, _ = self.evaluated(tmp_path, lambda _judge, _name: None)
        assert [result.outcome.judged for result in run.results] == [False] * len(GENES)
        assert all((result.metadata.error or "").strip() for result in run.results), "set an error"

    def test_judges_that_disagree_are_no_error(self, tmp_path: Path) -> None:
        run, _ = self.evaluated(tmp_path, lambda judge, name: GENES[name] if judge % 2 else "TP53")
        assert len(run.results) == len(GENES)

    def test_rescoring_gives_the_same_results_without_a_call(self, tmp_path: Path) -> None:
        run, _ = self.evaluated(tmp_path, _right)
        done = run_command(tmp_path, "rescore", JOURNAL, "-o", "again.jsonl", OPENAI_API_KEY="a-key")
        assert done.code == 0, done.err
        again = read_results(tmp_path / "again.jsonl")
        assert {result.item: result.outcome for result in again} == {
            result.item: result.outcome for result in run.results
        }


def _right(_judge: int, question: str) -> str:
    """Return the correct answer to a question, for every judge."""
    return GENES[question]
