"""The contract for every panel of judges."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from karenina_testing.contracts.installed.command_run import run_command
from karenina_testing.contracts.installed.run import GENES, JOURNAL, RunContract, SampleRun, read_results
from karenina_testing.server import Request, ScriptedServer, Side, faults

Opinion = Callable[[int, str], str | None]
"""A function that takes a judge's number and a question id and returns the gene that the judge extracts.

None makes the judge's call fail.
"""


class PanelContract(RunContract):
    """The contract for a panel of judges: `settings` turns it on, and `judges` is the number of judges."""

    judges: ClassVar[int] = 3

    @contextmanager
    def served(self, opinion: Opinion) -> Iterator[tuple[ScriptedServer, list[str]]]:
        """Run a server with the judges while the block lasts; yield it with the command options that select them."""

        def reply(request: Request) -> Any:
            judge = int(request.fields["model"].rpartition("-")[2])
            question = next(id for id in GENES if id in request.text)
            gene = opinion(judge, question)
            return faults.status(400) if gene is None else json.dumps({"gene": gene})

        with ScriptedServer(judge=Side(reply)) as server:
            names = (f"openai:judge-{number}@{server.url}/judge/v1" for number in range(self.judges))
            yield server, [word for name in names for word in ("--judge", name)]

    def evaluated(self, folder: Path, opinion: Opinion, *, panel: bool = True) -> tuple[SampleRun, int]:
        """Return how a run ended, and the number of its calls; with `panel=False`, `settings` is not used."""
        with self.served(opinion) as (server, judges):
            run = self.run(folder, *judges, judged=True, **(self.settings if panel else {}))
        return run, len(server.log)

    def test_without_its_settings_each_judge_has_its_result(self, tmp_path: Path) -> None:
        run, _ = self.evaluated(tmp_path, _right, panel=False)
        assert len(run.results) == self.judges * len(GENES)

    def test_each_answer_has_one_result_with_the_name_of_the_panel(self, tmp_path: Path) -> None:
        run, calls = self.evaluated(tmp_path, _right)
        assert run.code == 0, run.err
        assert sorted(one.question_id for one in run.results) == sorted(GENES)
        (panel,) = {one.metadata.parsing_id for one in run.results}
        assert not panel.startswith("judge-"), "make the result with answer.result_of(self.model, ...)"
        counted = [(one.template.usage_metadata or {})["total"]["calls"] for one in run.results]
        assert sum(counted) == calls, "the result counts the calls of all judges that were asked"
        stages = [sum(stage.name == "GenerateAnswer" for stage in one.stages) for one in run.results]
        assert stages == [1] * len(GENES), "the stages of the answer count once"

    def test_judges_that_agree_decide(self, tmp_path: Path) -> None:
        run, _ = self.evaluated(tmp_path, lambda _judge, name: GENES[name] if name == "imatinib" else "TP53")
        verdicts = {one.question_id: one.outcome.passes for one in run.results}
        assert verdicts == {"venetoclax": False, "imatinib": True, "olaparib": False}
        assert all(one.outcome.has_verdict for one in run.results)

    def test_a_failing_judge_makes_no_answer_wrong(self, tmp_path: Path) -> None:
        run, _ = self.evaluated(tmp_path, lambda judge, name: None if judge == 0 else GENES[name])
        assert len(run.results) == len(GENES)
        assert [one.question_id for one in run.results if one.outcome.has_verdict and not one.outcome.passes] == []

    def test_an_answer_that_no_judge_could_read_is_not_judged(self, tmp_path: Path) -> None:
        run, _ = self.evaluated(tmp_path, lambda _judge, _name: None)
        assert [one.outcome.judged for one in run.results] == [False] * len(GENES)
        assert all((one.metadata.error or "").strip() for one in run.results), "say why"

    def test_judges_that_disagree_are_no_error(self, tmp_path: Path) -> None:
        run, _ = self.evaluated(tmp_path, lambda judge, name: GENES[name] if judge % 2 else "TP53")
        assert len(run.results) == len(GENES)

    def test_rescoring_gives_the_same_results_without_a_call(self, tmp_path: Path) -> None:
        run, _ = self.evaluated(tmp_path, _right)
        done = run_command(tmp_path, "rescore", JOURNAL, "-o", "again.jsonl", OPENAI_API_KEY="a-key")
        assert done.code == 0, done.err
        again = read_results(tmp_path / "again.jsonl")
        assert {one.item: one.outcome for one in again} == {one.item: one.outcome for one in run.results}


def _right(_judge: int, question: str) -> str:
    return GENES[question]
