"""`karenina run` in CI: conditions, JUnit XML, and the summary in Markdown."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from command_runs import CommandResult, make_plugins, run_karenina, write_benchmark

from karenina_core.models.ports import ErrorCategory, PortError

MODELS = ("-a", "scripted:m", "--set", "evaluation_mode=rubric_only", "--no-journal")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("KARENINA_", "GITHUB_"))]:
        monkeypatch.delenv(name)


def run(*more: str) -> CommandResult:
    """Run two questions; the server fails for one of them."""

    def say(id: str) -> str:
        if id == "b":
            raise PortError("the server is down", category=ErrorCategory.PERMANENT)
        return "fine"

    file = write_benchmark(Path(), "a", "b")
    return run_karenina("run", file, *MODELS, *more, plugins=make_plugins(say))


def test_unjudged_items_beyond_the_limit_exit_with_1() -> None:
    failed = run("--max-unjudged", "0")

    assert failed.code == 1
    assert "1 item was not judged, which is more than --max-unjudged 0." in failed.err
    assert run("--max-unjudged", "1").code == 0


def test_junit_has_a_case_for_each_item() -> None:
    assert run("--junit", "junit.xml").code == 0
    assert run("--junit", "junit.xml").code == 0  # an earlier file of Karenina is replaced
    cases = {case.get("name"): [child.tag for child in case] for case in ET.parse("junit.xml").iter("testcase")}

    assert cases == {"a": [], "b": ["error"]}
    assert sorted(path.name for path in Path().glob("junit*")) == ["junit.xml"]


def test_another_file_is_not_replaced() -> None:
    Path("notes.xml").write_text("<notes/>", "utf-8")
    refused = run("--junit", "notes.xml")

    assert refused.code == 2
    assert Path("notes.xml").read_text("utf-8") == "<notes/>"
    assert not Path("words.results.jsonl").exists()


def test_the_folder_of_a_junit_file_is_created() -> None:
    assert run("--junit", "reports/unit/junit.xml").code == 0
    assert ET.parse("reports/unit/junit.xml").getroot() is not None


@pytest.mark.parametrize("file", ["words.results.jsonl", "w.journal"])
def test_a_junit_file_never_replaces_a_file_of_the_run(file: str) -> None:
    benchmark = write_benchmark(Path(), "a")
    refused = run_karenina("run", benchmark, *MODELS[:-1], "--journal", "w.journal", "--junit", f"./{file}")

    assert refused.code == 2
    assert f"--junit {file} would replace the result file or the journal of the run" in refused.err
    assert not Path(file).exists()


@pytest.mark.parametrize("target", ["junit", "summary"])
def test_a_report_that_cannot_be_written_is_refused_before_the_run(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("words.txt").write_text("a file, not a folder", "utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "words.txt/summary.md")
    refused = run(*(("--junit", "words.txt/junit.xml") if target == "junit" else ("--summary-markdown",)))

    assert refused.code == 2
    assert "cannot be written" in refused.err
    assert not Path("words.results.jsonl").exists()


def test_the_summary_is_printed_or_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run("--summary-markdown", "--quiet")
    Path("summary.md").write_text("# Earlier\n", "utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    collected = run("--summary-markdown", "--json")

    assert "| b | stage_error | " in printed.out
    assert Path("summary.md").read_text("utf-8").startswith("# Earlier\n## Karenina\n")
    assert "## Karenina" not in collected.out
    assert collected.json["summary"]["items"] == 2


def test_markdown_and_json_are_not_mixed() -> None:
    refused = run("--summary-markdown", "--json")

    assert refused.code == 2
    assert "set GITHUB_STEP_SUMMARY to a file" in refused.err


def test_the_summary_has_the_reasons_why_the_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    done = run("--summary-markdown", "--fail-under", "0.5", "--max-unjudged", "0")

    assert done.code == 1
    text = Path("summary.md").read_text("utf-8")
    assert "**Failed:** There is no pass rate to compare with --fail-under, because no item has a verdict.\n" in text
    assert "**Failed:** 1 item was not judged, which is more than --max-unjudged 0.\n" in text
