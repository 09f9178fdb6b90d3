"""Commands that print results show the rules with which the user's own run compared its fields."""

import json
from pathlib import Path

import pytest
from conftest import Environment

BENCHMARK = """\
karenina: 1
name: Years
questions:
  - id: q
    question: In which year was venetoclax approved?
    answer: {year: {description: The year, ground_truth: true, verify_with: {type: TraceContains, substring: "2016"}}}
"""
RULE = "TraceContains (substring 2016)"
CHANGED = BENCHMARK.replace('"2016"', '"2017"')


@pytest.fixture
def years(site: Environment, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The benchmark of two runs of the user, whose results are in `a.jsonl` (right) and `b.jsonl` (wrong)."""
    monkeypatch.setenv("XDG_STATE_HOME", str(site.folder / "state"))
    benchmark = site.folder / "years.yaml"
    benchmark.write_text(BENCHMARK, "utf-8")
    for name, year in (("a", 2016), ("b", 2015)):
        run(site, name, year)
    return benchmark


def printed(site: Environment, *arguments: str) -> str:
    done = site.karenina(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(site: Environment, name: str, year: int) -> None:
    recording = site.folder / f"{name}.answers.jsonl"
    recording.write_text(json.dumps({"id": "q", "answer": f"It was approved in {year}."}) + "\n", "utf-8")
    printed(site, "run", "years.yaml", "--recordings", recording.name, "-o", f"{name}.jsonl", "--quiet")


def stored(site: Environment) -> list[Path]:
    """Return the user's own files that contain rules."""
    return list((site.folder / "state/karenina/rules").iterdir())


@pytest.mark.parametrize("change", ["change", "remove"])
def test_rules_are_those_of_the_run(site: Environment, years: Path, change: str) -> None:
    before = printed(site, "show", "a.jsonl"), printed(site, "compare", "a.jsonl", "b.jsonl")
    if change == "change":
        years.write_text(CHANGED, "utf-8")
    else:
        years.unlink()

    assert RULE in before[0]
    assert RULE in before[1]
    assert (printed(site, "show", "a.jsonl"), printed(site, "compare", "a.jsonl", "b.jsonl")) == before


@pytest.mark.usefixtures("years")
def test_a_copy_of_results_has_no_rules(site: Environment) -> None:
    copy = site.folder / "copy"
    copy.mkdir()
    for name in ("a.jsonl", "a.journal"):
        (copy / name).write_bytes((site.folder / name).read_bytes())

    assert RULE not in printed(site, "show", "copy/a.jsonl")


@pytest.mark.usefixtures("years")
@pytest.mark.parametrize("damage", ["missing", "cut", "not JSON", "readable by others", "of another run"])
def test_rules_that_cannot_be_used_are_read_from_the_benchmark(site: Environment, damage: str) -> None:
    before = printed(site, "show", "a.jsonl")
    for file in stored(site):
        lines = file.read_text("utf-8").splitlines(keepends=True)
        if damage == "missing":
            file.unlink()
        elif damage == "cut":
            file.write_text("".join(lines)[:-9], "utf-8")
        elif damage == "not JSON":
            file.write_text(lines[0] + "rules\n", "utf-8")
        elif damage == "readable by others":
            file.chmod(0o644)
        else:
            file.write_text('[1, "0123456789abcdef"]\n' + "".join(lines[1:]).replace("2016", "1999"), "utf-8")

    assert RULE in before
    assert printed(site, "show", "a.jsonl") == before


def test_rescored_results_have_the_rules_of_the_changed_benchmark(site: Environment, years: Path) -> None:
    years.write_text(CHANGED, "utf-8")
    printed(site, "rescore", "a.journal", "-o", "again.jsonl")

    assert "TraceContains (substring 2017)" in printed(site, "show", "again.jsonl")


def test_a_later_run_replaces_the_rules_of_an_earlier_one(site: Environment, years: Path) -> None:
    years.write_text(CHANGED, "utf-8")
    run(site, "a", 2017)

    assert "TraceContains (substring 2017)" in printed(site, "show", "a.jsonl")
    assert len(stored(site)) == 2
    assert {file.stat().st_mode & 0o777 for file in stored(site)} == {0o600}


@pytest.mark.usefixtures("years")
def test_rules_are_removed_with_the_command(site: Environment) -> None:
    (site.folder / "b.journal").unlink()
    run(site, "c", 2016)

    assert len(stored(site)) == 2
