"""`karenina report` without a browser: one file, with data that no parser interprets."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import CommandResult, run_karenina
from page_results import HOSTILE, SURROGATE, rich_results
from result_builders import result, run, save

import karenina_report
from karenina_benchmark import Benchmark
from karenina_core import hookimpl
from karenina_core import plugins as plugin_room
from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.plugins import Plugins
from karenina_report.commands import commands
from karenina_report.page.section import Column, IntervalPlot, PageRuns, PageSection, TableBlock, TextBlock
from karenina_report.page.writer import ReportOptions, write_page
from karenina_template.question_template import template_of

MOST_BYTES = 400_000


def report(*arguments: str | Path, plugins: Plugins | None = None) -> CommandResult:
    return run_karenina("report", *arguments, plugins=plugins or with_commands())


def with_commands() -> Plugins:
    plugins = Plugins()
    plugins.register(commands, distribution="karenina-report")
    return plugins


def blocks(file: Path) -> dict[str, Any]:
    """Return the data of a page by the id of its block."""
    scripts = re.findall(r'<script type="text/plain" id="karenina-([\w-]+)">([^<]*)</script>', file.read_text("utf-8"))
    return {id: json.loads(gzip.decompress(base64.b64decode(text))) for id, text in scripts}


def test_a_run_becomes_one_file_with_all_its_items(tmp_path: Path) -> None:
    results = rich_results([True, False, None])
    done = report(save(tmp_path / "r.jsonl", results), "-o", tmp_path / "report.html")
    assert done.code == 0, done.err
    assert done.err.startswith(f"The report was written to {tmp_path / 'report.html'} (0.")

    page = blocks(tmp_path / "report.html")
    assert page.keys() == {"head", "chunk-0"}
    head = page["head"]
    assert head["index"]["question_id"] == ["q0", "q1", "q2"]
    assert [head["outcomes"][place]["name"] for place in head["index"]["outcome"]] == [
        "correct",
        "wrong",
        "parse_error",
    ]
    assert head["runs"][0]["statistics"]["pass_rate"]["hits"] == 1
    first = page["chunk-0"][0]
    assert first["result"]["template"]["raw_llm_response"] == results[0].template.raw_llm_response
    assert [(field["name"], field["passed"]) for field in first["fields"]] == [("gene", True), ("year", True)]
    (excerpt,) = first["fields"][0]["excerpts"]
    assert results[0].template.raw_llm_response[excerpt["start"] : excerpt["end"]] == "BCL2"


def test_flips_of_questions_with_decomposed_ids_are_marked(tmp_path: Path) -> None:
    files = [
        save(tmp_path / f"{model}.jsonl", [result("cafe\u0301", right, model=model), result("q", True, model=model)])
        for model, right in (("a", True), ("b", False))
    ]

    done = report(*files, "-o", tmp_path / "report.html")

    assert done.code == 0, done.err
    head = blocks(tmp_path / "report.html")["head"]
    (change,) = head["comparison"]["pairs"][0]["changes"]
    assert head["index"]["flip"] == [1, 0, 1, 0]
    assert head["index"]["question_id"].count(change["question_id"]) == 2


def test_items_are_in_blocks_of_200(tmp_path: Path) -> None:
    report(save(tmp_path / "r.jsonl", run([True] * 450)), "-o", tmp_path / "report.html")
    page = blocks(tmp_path / "report.html")
    assert [len(page[f"chunk-{number}"]) for number in range(3)] == [200, 200, 50]
    assert len(page["head"]["index"]["id"]) == 450


def test_no_text_of_a_run_is_outside_of_the_data_blocks(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    results = rich_results([True, False], evil=HOSTILE, model="secret-model")
    report(save(tmp_path / "r.jsonl", results), "-o", file)
    outside = re.sub(
        r'<script type="text/plain" id="karenina-[\w-]+">[A-Za-z0-9+/=]*</script>', "", file.read_text("utf-8")
    )
    report(save(tmp_path / "other.jsonl", run([True])), "-o", tmp_path / "other.html")
    other = (tmp_path / "other.html").read_text("utf-8")
    assert outside == re.sub(r'<script type="text/plain" id="karenina-[\w-]+">[A-Za-z0-9+/=]*</script>', "", other)


def test_the_policy_allows_only_the_script_and_style_of_the_page(tmp_path: Path) -> None:
    report(save(tmp_path / "r.jsonl", run([True])), "-o", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashed = [
        f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'" for part in (script, style)
    ]
    assert policy == (
        f"default-src 'none'; script-src {hashed[0]}; style-src {hashed[1]}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def test_a_report_without_results_is_small_and_valid(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    report(save(tmp_path / "r.jsonl", run([True])), "-o", file)
    assert file.stat().st_size <= MOST_BYTES
    done = report(save(tmp_path / "empty.jsonl", []), "-o", tmp_path / "empty.html")
    assert done.code == 2
    assert "contains no result" in done.err
    assert not (tmp_path / "empty.html").exists()


def test_an_earlier_report_is_kept_and_another_file_refused(tmp_path: Path) -> None:
    results = save(tmp_path / "r.jsonl", run([True]))
    report(results, "-o", tmp_path / "report.html")
    first = (tmp_path / "report.html").read_bytes()
    done = report(results, "-o", tmp_path / "report.html")
    assert f"(the earlier file was renamed to {tmp_path / 'report-1.html'})" in done.err
    assert (tmp_path / "report-1.html").read_bytes() == first

    page = tmp_path / "homepage.html"
    page.write_text("<!doctype html>\n<title>Mine</title>\n")
    assert report(results, "-o", page).code == 2
    assert page.read_text() == "<!doctype html>\n<title>Mine</title>\n"


def test_two_runs_are_compared_and_their_flips_marked(tmp_path: Path) -> None:
    a = save(tmp_path / "a.jsonl", run([True, True, False], model="a"))
    b = save(tmp_path / "b.jsonl", run([True, False, False], model="b"))
    report(a, b, "-o", tmp_path / "report.html")
    head = blocks(tmp_path / "report.html")["head"]
    assert [entry["label"] for entry in head["runs"]] == ["A", "B"]
    assert head["index"]["flip"] == [0, 1, 0, 0, 1, 0]
    (pair,) = head["comparison"]["pairs"]
    assert [change["question_id"] for change in pair["changes"] if change["flipped"]] == ["q1"]


def test_runs_that_cannot_be_compared_are_shown_with_the_reason(tmp_path: Path) -> None:
    a = save(tmp_path / "a.jsonl", run([True], judge="j"))
    b = save(tmp_path / "b.jsonl", run([True], judge="other"))
    done = report(a, b, "-o", tmp_path / "report.html")
    assert done.code == 0
    assert "Warning: the runs were not compared: " in done.err
    head = blocks(tmp_path / "report.html")["head"]
    assert head["comparison"] is None
    assert "judge" in head["problem"]


def test_runs_that_only_have_scores_have_no_rates_of_keywords(tmp_path: Path) -> None:
    scored = [result(f"q{at}", Outcome.SCORED, keywords=[f"k{at}"], traits={"clarity": at}) for at in range(3)]
    report(save(tmp_path / "a.jsonl", scored), "-o", tmp_path / "report.html")
    assert [one["id"] for one in blocks(tmp_path / "report.html")["head"]["sections"]] == ["outcomes", "models"]


def test_an_unknown_column_is_one_error(tmp_path: Path) -> None:
    files = [save(tmp_path / f"{model}.jsonl", run([True], model=model)) for model in "ab"]
    done = report(*files, "-o", tmp_path / "report.html", "--by", "colour")
    assert done.code == 2
    assert done.err.startswith("Error: there is no column 'colour'")


def test_several_models_of_one_file_are_several_runs(tmp_path: Path) -> None:
    results = [*run([True, False], model="a"), *run([True, True], model="b")]
    report(save(tmp_path / "r.jsonl", results), "-o", tmp_path / "report.html")
    head = blocks(tmp_path / "report.html")["head"]
    assert [entry["name"] for entry in head["runs"]] == ["a", "b"]
    assert head["index"]["run"] == [0, 0, 1, 1]
    report(tmp_path / "r.jsonl", "-o", tmp_path / "one.html", "--model", "b")
    assert blocks(tmp_path / "one.html")["head"]["index"]["question_id"] == ["q0", "q1"]


def test_results_in_memory_may_hold_lone_surrogates(tmp_path: Path) -> None:
    results = rich_results([True], answer=f"BCL2 {SURROGATE}")
    write_page([results], tmp_path / "report.html", ReportOptions(), warn=pytest.fail)
    item = blocks(tmp_path / "report.html")["chunk-0"][0]
    assert item["result"]["template"]["raw_llm_response"].startswith("BCL2 ")


def test_numbers_that_json_lacks_do_not_break_the_page(tmp_path: Path) -> None:
    (item,) = rich_results([True])
    values = {"parsed_llm_response": {"year": math.nan}, "verify_granular_result": math.inf}
    broken = item.model_copy(update={"template": item.template.model_copy(update=values)})
    with plugin_room.use_plugins(with_commands()):
        write_page([[broken]], tmp_path / "report.html", ReportOptions(), warn=pytest.fail)
    page = blocks(tmp_path / "report.html")
    assert page["head"]["index"]["granular"] == [None]
    assert page["chunk-0"][0]["result"]["template"]["parsed_llm_response"] == {"year": None}
    assert [field["extracted"] for field in page["chunk-0"][0]["fields"] if field["name"] == "year"] == ["NaN"]


def test_python_programs_write_reports_of_results_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "report.html"
    a, b = run([True, False]), run([True, True], judge="other")
    with plugin_room.use_plugins(with_commands()):
        assert karenina_report.write_report(iter(a), output=file) is None
        assert caplog.messages == []
        assert karenina_report.write_report(a, b, output=str(file)) == tmp_path / "report-1.html"
    assert [text.partition(":")[0] for text in caplog.messages] == ["the runs were not compared"]
    assert blocks(file)["head"]["index"]["run"] == [0, 0, 1, 1]


def test_a_journal_of_other_results_is_reported(tmp_path: Path) -> None:
    results = save(tmp_path / "r.results.jsonl", run([True]))
    (tmp_path / "r.journal").write_text("damaged")
    done = report(results, "-o", tmp_path / "report.html")
    assert done.code == 0
    assert f"Warning: the calls in the journal {tmp_path / 'r.journal'} were left out" in done.err


class Rewriting:
    """A plugin that replaces a result file between the two times when it is read."""

    def __init__(self, file: Path, results: Sequence[VerificationResult]) -> None:
        self._file, self._results = file, results

    @hookimpl
    def karenina_report_sections(self) -> Sequence[Callable[[PageRuns], Sequence[PageSection]]]:
        return [self._replace]

    def _replace(self, page: PageRuns) -> Sequence[PageSection]:
        save(self._file, self._results)
        return []


def test_results_that_a_run_adds_meanwhile_are_left_out(tmp_path: Path) -> None:
    results = run([True, False])
    file = save(tmp_path / "r.jsonl", results[:1])
    plugins = with_commands()
    plugins.register(Rewriting(file, results[::-1]), distribution="run")
    report(file, "-o", tmp_path / "report.html", plugins=plugins)
    assert blocks(tmp_path / "report.html")["head"]["index"]["question_id"] == ["q0"]


def test_results_that_disappear_meanwhile_stay_in_the_page(tmp_path: Path) -> None:
    results = run([True, False])
    file = save(tmp_path / "r.jsonl", results)
    plugins = with_commands()
    plugins.register(Rewriting(file, results[:1]), distribution="run")
    report(file, "-o", tmp_path / "report.html", plugins=plugins)
    page = blocks(tmp_path / "report.html")
    assert page["head"]["index"]["question_id"] == ["q0", "q1"]
    assert [item["result"]["metadata"]["question_id"] for item in page["chunk-0"]] == ["q0", "q1"]


class ThirdParty:
    """A plugin with one section that works and one that does not."""

    @hookimpl
    def karenina_report_sections(self) -> Sequence[Callable[[PageRuns], Sequence[PageSection]]]:
        return [self._lengths, self._broken, self._exits, self._undefined, self._odd, self._single, self._plain]

    def _lengths(self, page: PageRuns) -> Sequence[PageSection]:
        rows = [[run.name, len(run.results), 0.5, 0.2, 0.9] for run in page.runs]
        columns = [Column("Run"), Column("Results", "count"), Column("Mean", "share"), Column("Low"), Column("High")]
        table = TableBlock(columns, rows, plot=IntervalPlot("Run", "Mean", "Low", "High"))
        return [PageSection("lengths", "Lengths", [TextBlock("How long answers are."), table])]

    def _broken(self, page: PageRuns) -> Sequence[PageSection]:
        raise LookupError("no such thing")

    def _exits(self, page: PageRuns) -> Sequence[PageSection]:
        raise SystemExit(0)

    def _undefined(self, page: PageRuns) -> Sequence[PageSection]:
        return [PageSection("undefined", "Undefined", [TableBlock([Column("Value")], [[math.nan]])])]

    def _odd(self, page: PageRuns) -> Sequence[PageSection]:
        cell: Any = {1, 2}
        return [PageSection("odd", "Odd", [TableBlock([Column("Value")], [[cell]])])]

    def _single(self, page: PageRuns) -> Any:
        return PageSection("single", "Single", [])

    def _plain(self, page: PageRuns) -> Sequence[PageSection]:
        paragraph: Any = "How long answers are."
        return [PageSection("plain", "Plain", [paragraph])]


def test_a_plugin_adds_a_section_and_a_broken_one_is_reported(tmp_path: Path) -> None:
    plugins = with_commands()
    plugins.register(ThirdParty(), distribution="ruler", version="2.0")
    done = report(save(tmp_path / "r.jsonl", run([True, False])), "-o", tmp_path / "report.html", plugins=plugins)
    assert "Warning: a section from ruler 2.0 was left out: LookupError: no such thing" in done.err
    assert "Warning: a section from ruler 2.0 was left out: SystemExit: 0" in done.err
    sections = {section["id"]: section for section in blocks(tmp_path / "report.html")["head"]["sections"]}
    assert "ruler 2.0 was left out: TypeError: the column 'Value' contains a set; cells are strings, num" in done.err
    assert "ruler 2.0 was left out: TypeError: the function returned PageSection, not a list of sections" in done.err
    assert "the section 'plain' contains a block of type 'str'; use TextBlock(\"...\") for a paragraph" in done.err
    assert sections["undefined"]["blocks"][0]["rows"] == [[None]]
    assert "odd" not in sections
    assert sections["lengths"]["distribution"] == "ruler"
    assert sections["lengths"]["blocks"][1]["rows"] == [["m", 2, 0.5, 0.2, 0.9]]
    assert sections["models"]["distribution"] == "karenina-report"


class Unusable:
    """A plugin whose hook fails."""

    @hookimpl
    def karenina_report_sections(self) -> Sequence[Callable[[PageRuns], Sequence[PageSection]]]:
        raise LookupError("no sections today")


def test_a_plugin_whose_hook_fails_is_reported(tmp_path: Path) -> None:
    plugins = with_commands()
    plugins.register(Unusable(), distribution="ruler", version="2.0")
    done = report(save(tmp_path / "r.jsonl", run([True, False])), "-o", tmp_path / "report.html", plugins=plugins)
    assert "Warning: ruler 2.0 cannot be used, so the page contains no sections from it: LookupError: no se" in done.err


def test_a_column_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="the column 'Share' has the unknown kind 'shares'; did you mean 'share'"):
        Column("Share", "shares")  # type: ignore[arg-type]  # what a plugin does by mistake


def test_a_table_with_rows_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a row has 1 cells, but the table has 2 columns"):
        TableBlock([Column("a"), Column("b")], [["x"]])
    with pytest.raises(ValueError, match="the plot needs the column 'c'"):
        TableBlock([Column("a")], [], plot=IntervalPlot("a", "c", "a", "a"))


def test_rules_of_fields_come_from_the_benchmark(tmp_path: Path) -> None:
    benchmark = tmp_path / "b.yaml"
    benchmark.write_text(
        "karenina: 1\nname: B\nquestions:\n  - {id: q0, question: 'What?', answer: {year: {description: The year, "
        "ground_truth: 2016, verify_with: {type: NumericTolerance, tolerance: 1, mode: absolute}}}}\n"
    )
    template = template_of(next(iter(Benchmark.load(benchmark))))
    assert template is not None
    (item,) = rich_results([True])
    same = item.model_copy(update={"metadata": item.metadata.model_copy(update={"template_id": template.template_id})})
    for item_shown, rule in ((same, "NumericTolerance (tolerance 1, mode absolute)"), (item, None)):
        results = save(tmp_path / "r.jsonl", [item_shown])
        done = report(results, "-o", tmp_path / "report.html", "--benchmark", benchmark)
        assert done.code == 0
        fields = {field["name"]: field["rule"] for field in blocks(tmp_path / "report.html")["chunk-0"][0]["fields"]}
        assert fields == {"gene": None, "year": rule}
        assert ("the rules of 1 question were left out because its template has changed" in done.err) == (rule is None)


def test_every_outcome_has_a_class_and_a_place_in_the_order(tmp_path: Path) -> None:
    with plugin_room.use_plugins(with_commands()):
        write_page([run(reversed(Outcome))], tmp_path / "report.html", ReportOptions(), warn=pytest.fail)
    outcomes = blocks(tmp_path / "report.html")["head"]["outcomes"]
    assert [outcome["name"] for outcome in outcomes] == [outcome.value for outcome in Outcome]
    classes = {"right", "partial", "wrong", "failed", "scored", "undecided", "not_judged"}
    assert {outcome["class"] for outcome in outcomes} == classes
