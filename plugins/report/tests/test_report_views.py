"""Comparisons and statistics at the Python prompt and in notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_runs import run_karenina
from result_builders import result, run, save
from shown_html import HOSTILE, ShownHTML

from karenina_core.plugins import Plugins
from karenina_report import compare, describe
from karenina_report.commands import commands


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    a = save(tmp_path / "a.jsonl", run([True] * 20 + [False] * 5, model="a"))
    return a, save(tmp_path / "b.jsonl", run([True] * 12 + [False] * 13, model="b"))


def test_a_comparison_prints_what_the_command_prints(files: tuple[Path, Path]) -> None:
    shown = repr(compare(*files))

    for line in ("Pass rate", "Difference", "p = ", "Flips, A -> B (5 of 8 questions)"):
        assert line in shown
    difference = next(line for line in shown.splitlines() if line.startswith("Difference"))
    assert "95% CI [" in difference
    assert difference in commanded("compare", *files)


def test_statistics_print_what_the_command_prints(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files[0].parent)  # a long path would be on two lines
    (statistics,) = describe(Path(files[0].name))
    printed = commanded("stats", files[0].name)

    assert "80.0%, 95% CI [" in repr(statistics)
    assert " ".join(repr(statistics).split()) in " ".join(printed.split())  # lines are broken at different widths


def commanded(*arguments: str | Path) -> str:
    plugins = Plugins()
    plugins.register(commands, distribution="karenina-report", version="0.1.0")
    done = run_karenina(*arguments, plugins=plugins, width=100)
    assert done.code == 0, done.err
    return done.out


def test_a_notebook_shows_tables_with_intervals_and_flips(files: tuple[Path, Path]) -> None:
    seen = ShownHTML(compare(*files)._repr_html_())

    assert "table" in seen.tags
    for text in ("Pass rate, all", "Difference", "95% CI [", "Flips, A -> B (5 of 8 questions)", "correct -> wrong"):
        assert text in seen.text
    assert "Variance" in ShownHTML(describe(files[0])[0]._repr_html_()).text


def test_hostile_texts_of_runs_are_shown_as_text() -> None:
    a = [result(f"{HOSTILE}{at}", True, text=HOSTILE * 500, model=HOSTILE, answer=HOSTILE * 500) for at in range(50)]
    b = [result(f"{HOSTILE}{at}", False, text=HOSTILE * 500, model="b", keywords=[HOSTILE]) for at in range(50)]

    for shown in (compare(a, b), *describe(b, by="keyword")):
        html = shown._repr_html_()
        assert "<script>" in ShownHTML(html).text
        assert len(html or "") < 50_000
        assert len(repr(shown)) < 30_000
        assert "\x1b" not in repr(shown)
