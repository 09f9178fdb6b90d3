"""Sources of runs: journals and result files, and the cost, prompts and settings in journals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_runs import CommandResult, run_karenina, write_benchmark
from journal_runs import ScriptedRuns
from result_builders import result, save

from karenina_core import Stage, VerificationContext, hookimpl
from karenina_core.models.prompts import PromptTask
from karenina_core.plugins import Plugins
from karenina_report import compare
from karenina_report.commands import commands
from karenina_report.page.own_sections import run_sections
from karenina_report.page.section import PageRuns, TableBlock
from karenina_report.runs import read_runs

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("own_folder")]

MODELS = ("-a", "scripted:m", "-j", "scripted:j", "--set", "evaluation_mode=rubric_only")


class Judge(Stage):
    """A stage with a judge prompt that takes added instructions."""

    name = "Judge"
    prompts = (PromptTask("judging", "Judge it."),)

    def execute(self, context: VerificationContext) -> None:
        """Do nothing."""


class _Offer:
    @hookimpl
    def karenina_extra_stages(self) -> list[type[Stage]]:
        return [Judge]


def plugins() -> Plugins:
    """Return the plugins of a run, with the command and a prompt."""
    registered = ScriptedRuns().plugins()
    registered.register(commands)
    registered.register(_Offer(), distribution="karenina-test", version="1.2")
    return registered


def run(name: str, *more: str) -> CommandResult:
    """Run the benchmark, with a result file and a journal of this name."""
    file = write_benchmark(Path(), "a", "b")
    done = run_karenina("run", file, *MODELS, "-o", f"{name}.results.jsonl", *more, plugins=plugins())
    assert done.code == 0, done.err
    return done


def test_a_journal_is_compared_like_the_results_beside_it() -> None:
    run("one")
    run("two")

    of_files = compare("one.results.jsonl", "two.results.jsonl")
    of_journals = compare("one.journal", "two.journal")

    assert [entry.source for entry in of_journals.runs] == ["one.journal", "two.journal"]
    assert [entry.name for entry in of_files.runs] == [entry.name for entry in of_journals.runs] == ["one", "two"]
    assert of_files.pairs == of_journals.pairs
    assert [entry.calls for entry in of_files.runs] == [4, 4]


def test_the_cost_is_that_of_the_journal_of_these_results() -> None:
    priced = ("--set", 'prices={"m": {"input": 1, "output": 2}, "j": {"input": 1, "output": 2}}')
    run("one", *priced)
    run("two", *priced)
    Path("moved.results.jsonl").write_bytes(Path("two.results.jsonl").read_bytes())
    Path("moved.journal").write_bytes(Path("two.journal").read_bytes())

    known, moved = compare("one.results.jsonl", "moved.results.jsonl").runs

    assert known.cost_usd is not None
    assert known.cost_usd > 0
    assert known.cost_is_whole
    assert moved.cost_usd == known.cost_usd
    shown = run_karenina("compare", "one.results.jsonl", "moved.results.jsonl", plugins=plugins()).out
    assert re.search(rf"Cost +\${known.cost_usd:.6f} ", shown)  # not $0.0001


def test_the_table_of_models_states_that_a_cost_is_not_whole() -> None:
    run("one", "--set", 'prices={"j": {"input": 1, "output": 2}}')
    runs = read_runs(["one.results.jsonl"])

    models = next(section for section in run_sections(PageRuns(runs, ["A"])) if section.id == "models")

    (table,) = models.blocks
    assert isinstance(table, TableBlock)
    assert table.note.endswith("A: the cost is at least this, because that of some calls is not known.")


def test_a_changed_judge_prompt_is_refused_with_the_cure() -> None:
    run("one")
    run("two", "--set", 'prompt_config={"judging": "Be lenient."}')
    refused = run_karenina("compare", "one.journal", "two.journal", plugins=plugins())

    assert refused.code == 2
    assert "the prompts judging of the judge changed between one and two" in refused.err
    assert "karenina rescore" in refused.err
    assert run_karenina("compare", "one.journal", "two.journal", "--any-judge", plugins=plugins()).code == 0


def test_settings_that_change_results_are_named() -> None:
    run("one")
    run("two", "--set", "use_full_trace_for_rubric=false", "--set", "item_timeout=600")

    (pair,) = compare("one.journal", "two.journal").pairs

    assert list(pair.notes) == ["the runs have different settings: use_full_trace_for_rubric"]


def test_a_damaged_journal_ends_with_2(tmp_path: Path) -> None:
    broken = tmp_path / "broken.journal"
    broken.write_bytes(b"SQLite format 3\0" + bytes(500))
    run("one")

    done = run_karenina("compare", "one.journal", broken, plugins=plugins())

    assert done.code == 2
    assert "broken.journal" in done.err


def test_runs_of_files_of_the_same_name_in_two_folders_have_different_names() -> None:
    for folder in ("one", "two"):
        Path(folder).mkdir()
        save(Path(folder, "run.results.jsonl"), [result("q1", True, model=model) for model in ("m", "n")])

    runs = read_runs(["one/run.results.jsonl", "two/run.results.jsonl"])

    assert [run.name for run in runs] == [
        f"{model} ({folder}/run.results.jsonl)" for folder in ("one", "two") for model in ("m", "n")
    ]
