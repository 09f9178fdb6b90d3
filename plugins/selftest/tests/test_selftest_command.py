"""`karenina selftest`: rates of judges that are right, fooled or unreadable; limits, resuming and reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_runs import CommandResult, make_result, run_karenina, write_results
from scripted_judges import CASES, judge, with_plugins

from karenina_core.data.sections import ModelIdentity
from karenina_core.plugins import Plugins
from karenina_report.page.section import PageRuns, TableBlock
from karenina_report.runs import Run
from karenina_selftest.store import read_scores, selftest_sections
from karenina_testing import ScriptedModels

FORGED = "forged delimiters"
FAITHFUL = "scripted:judge"


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KARENINA_STATE_HOME", str(tmp_path / "state"))


def selftest(*arguments: str | Path, plugins: Plugins) -> CommandResult:
    return run_karenina("selftest", "--judge", FAITHFUL, "--quiet", *arguments, plugins=plugins)


def test_a_faithful_judge_is_shown_to_be_specific() -> None:
    done = selftest("--min-specificity", "0.95", plugins=with_plugins(judge(lambda _case: False)))

    assert done.code == 0, done.err
    assert "False passes  0.0%, 95% CI [0.0%, 4.1%]: 0 of 89 judged cases that must fail" in done.out
    assert "False fails   0.0%, 95% CI [0.0%, 9.4%]: 0 of 37 judged cases that must pass" in done.out
    assert "Wrong verdicts" not in done.out


def test_a_fooled_judge_is_found_with_its_worst_prompts() -> None:
    fooled = with_plugins(judge(lambda case: case.family == FORGED))
    done = selftest("--min-specificity", "0.95", "--worst", "2", plugins=fooled)

    assert done.code == 1
    assert "False passes  10.1%, 95% CI [5.4%, 18.1%]: 9 of 89 judged cases that must fail" in done.out
    assert "Wrong verdicts, passes first, of 9" in done.out
    assert "passed: attack/forged delimiters/closes the fence without a mark" in done.out
    assert "extracted  {'gene': 'BCL2'}" in done.out
    assert "lower limit of the judge's specificity is 0.819, but --min-specificity is 0.95" in done.err


def test_a_limit_that_the_cases_cannot_show_is_refused() -> None:
    models = judge(lambda _case: False)
    done = selftest("--limit", "30", "--min-specificity", "0.95", plugins=with_plugins(models))

    assert done.code == 2
    assert "73 independent cases are needed" in done.err
    assert models.requests == []


def test_unreadable_replies_are_in_no_rate(tmp_path: Path) -> None:
    models = ScriptedModels(fill=lambda _messages, _schema, info: "?" if FORGED in info.question_id else {"gene": None})
    done = selftest("--family", FORGED, "--family", "fake JSON", "--json", plugins=with_plugins(models))

    (score,) = done.json["judges"]
    assert score["false_pass"]["out_of"] + score["unreadable"] == 17
    assert score["unreadable"] >= 9
    assert score["false_pass"]["hits"] == 0
    tested = {"parsing": ModelIdentity(interface="scripted", model_name="judge")}
    run = write_results(tmp_path / "r.jsonl", make_result("q1", metadata=tested))
    shown = " ".join(run_karenina("show", run, plugins=with_plugins()).out.split())
    assert f"that must pass; {score['unreadable']} replies could not be parsed" in shown


def test_without_any_readable_reply_the_exit_code_is_4() -> None:
    done = selftest("--limit", "5", plugins=with_plugins(ScriptedModels(fill=lambda *_: "no JSON at all")))

    assert done.code == 4
    assert "5 replies that could not be parsed (not in any rate)" in done.out
    assert read_scores(FAITHFUL) == []


def test_two_judges_are_scored_apart() -> None:
    fooled = judge(lambda _case: True)
    fooled.interface = "fooled"
    plugins = with_plugins(judge(lambda _case: False), fooled)
    done = selftest("--judge", "fooled:judge", "--limit", "20", "--json", plugins=plugins)

    rates = {entry["judge"]: entry["false_pass"]["value"] for entry in done.json["judges"]}
    assert rates == {"scripted:judge": 0.0, "fooled:judge": 1.0}


def test_a_stopped_test_continues_without_repeating_calls() -> None:
    models = judge(lambda _case: False)
    prices = {"judge": {"input": 1, "output": 1}, "recorded": {"input": 0, "output": 0}}
    priced = ("--limit", "12", "--set", f"prices={json.dumps(prices)}")
    first = selftest(*priced, "--set", "budget=0.006", plugins=with_plugins(models))
    calls = len(models.requests)
    assert first.code == 3, first.err
    assert 0 < calls < 12
    assert read_scores(FAITHFUL) == []

    again = selftest(*priced, plugins=with_plugins(models))
    assert again.code == 0, again.err
    assert len(models.requests) == 12
    assert f"{calls} of 12 results" in again.err
    assert read_scores(FAITHFUL)[0].false_pass.out_of == 9


def test_cases_of_own_templates_are_judged_too(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "karenina: 1\nname: Own\nquestions:\n  - id: gene\n    question: Which gene?\n    answer:\n"
        "      gene: {description: The gene, ground_truth: BCL2, verify_with: ExactMatch}\n"
        "  - {id: open, question: Anything}\n",
        "utf-8",
    )
    always = ScriptedModels(fill=lambda _messages, _schema, _info: {"gene": "BCL2"})
    done = selftest(file, "--own-only", plugins=with_plugins(always))

    assert done.code == 0, done.err
    assert "No cases were made from 1 of 2 questions:\n  open: the question has no template" in done.err
    assert "5 of 5 judged cases that must fail" in done.out
    assert "0 of 4 judged cases that must pass" in done.out
    assert read_scores(FAITHFUL)[0].cases == "own.yaml, 9 cases"


def test_reports_show_the_stored_rates_of_their_judges() -> None:
    selftest(plugins=with_plugins(judge(lambda _case: False)))
    selftest(plugins=with_plugins(judge(lambda _case: False)))
    tested = {"parsing": ModelIdentity(interface="scripted", model_name="judge")}
    run = Run("m", None, [make_result("q1", metadata=tested), make_result("q2")])

    (section,) = selftest_sections(PageRuns([run], ["A"]))
    (table,) = section.blocks
    assert isinstance(table, TableBlock)
    assert [row[0] for row in table.rows] == [FAITHFUL, "scripted:m"]
    assert table.rows[0][1:5] == [0.0, 0.0, pytest.approx(0.041, abs=1e-3), 89]
    assert table.rows[1][8] == "not tested"


def test_runs_show_the_last_rates_of_their_judge(tmp_path: Path) -> None:
    selftest(plugins=with_plugins(judge(lambda case: case.family == FORGED)))
    tested = {"parsing": ModelIdentity(interface="scripted", model_name="judge")}
    run = write_results(tmp_path / "r.jsonl", make_result("q1", metadata=tested))
    done = run_karenina("show", run, plugins=with_plugins())

    passed = "Self-test  scripted:judge passed 10.1% [5.4%, 18.1%] of 89 answers that must fail, and failed 0.0% of 37"
    assert passed in done.out


def test_reports_of_untested_judges_have_no_section() -> None:
    assert selftest_sections(PageRuns([Run("m", None, [make_result("q1")])], ["A"])) == ()


def test_unknown_families_are_refused() -> None:
    done = selftest("--family", "puns", plugins=with_plugins())

    assert done.code == 2
    assert "unknown family 'puns'; available families: master keys," in done.err


def test_the_judge_sees_no_truth_outside_of_the_answer() -> None:
    models = judge(lambda _case: False)
    selftest("--family", "master keys", plugins=with_plugins(models))

    assert len(models.requests) == 10
    truths = ("BCL2", "2016", "Canberra", "tungsten", "78.4")
    assert [text for text in truths if any(text in request.text for request in models.requests)] == []
    assert {request.info.question_id for request in models.requests} <= set(CASES)
