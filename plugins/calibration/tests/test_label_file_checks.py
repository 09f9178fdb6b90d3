"""Files of labels that others wrote, or that were edited: what does not fit the results is refused with its line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from labelled import label_run
from runs import errant_run, karenina

Lines = list[dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return label_run(tmp_path / "genes.results.jsonl", errant_run(100), count=40)


def edit(run: Path, change: Callable[[Lines], object]) -> None:
    """Change the lines of the file of labels, of which the first is the draw."""
    file = run.with_name("genes.labels.jsonl")
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    change(lines)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def stratum(**values: Any) -> Callable[[Lines], object]:
    return lambda lines: lines[0]["draw"]["strata"][0].update(values)


def item(**values: Any) -> Callable[[Lines], object]:
    return lambda lines: lines[0]["draw"]["items"][0].update(values)


def exchange(lines: Lines) -> None:
    """Say of each drawn answer that it is of the other of two strata, of which as many were drawn."""
    items = lines[0]["draw"]["items"]
    least = min(sum(entry["stratum"] == number for entry in items) for number in (0, 1))
    for number in (0, 1):
        for entry in [entry for entry in items if entry["stratum"] == number][:least]:
            entry["stratum"] = 1 - number


CHANGES: dict[str, tuple[Callable[[Lines], object], str]] = {
    "no size": (stratum(size=0), "strata.0.size"),
    "negative size": (stratum(size=-5), "strata.0.size"),
    "too large for a float": (stratum(size=10**400), "strata.0.size"),
    "another size": (stratum(size=1000), "answers in the results, but the draw states 1000"),
    "negative count": (stratum(drawn=-1), "strata.0.drawn"),
    "another count": (stratum(drawn=3), "of which 3 were drawn"),
    "no verdicts": (stratum(verdicts=[]), "strata.0.verdicts"),
    "any verdict too": (stratum(verdicts=["any", "correct"]), "two strata contain the answers of 'm'"),
    "another model": (stratum(model="x"), "it has no stratum for the answer"),
    "negative stratum": (item(stratum=-1), "items.0.stratum"),
    "a stratum too many": (item(stratum=99), "unknown stratum 99"),
    "strata exchanged": (exchange, "are not those drawn with seed"),
    "unknown answer": (item(item="nobody"), "the results do not contain the answer 'nobody'"),
    "an answer twice": (
        lambda lines: lines[0]["draw"]["items"].append(lines[0]["draw"]["items"][0]),
        "was drawn more than once",
    ),
    "another seed": (lambda lines: lines[0]["draw"].update(seed=99), "are not those drawn with seed 99"),
    "said to be simple": (
        lambda lines: lines[0]["draw"].update(simple=True),
        "the strata of a simple draw must have only the verdict 'any'",
    ),
    "no strata": (lambda lines: lines[0]["draw"].update(strata=[]), "unknown stratum 0"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_draw_that_does_not_fit_is_refused_with_its_line(run: Path, name: str) -> None:
    change, problem = CHANGES[name]
    edit(run, change)

    done = karenina("calibrate", run)
    assert done.code == 2, done.err
    assert "genes.labels.jsonl, line 1" in done.err
    assert problem in done.err


def test_every_command_refuses_a_draw_that_does_not_fit(run: Path) -> None:
    edit(run, CHANGES["another model"][0])

    for command in ("calibrate", "label"):
        done = karenina(command, run)
        assert done.code == 2, done.err
        assert re.search(r"cannot use the draw in \S*genes\.labels\.jsonl, line 1: ", done.err)
    assert "not available" in karenina("show", run).out


@pytest.mark.parametrize("with_draw", [True, False])
def test_a_label_of_an_unknown_answer_is_refused_with_its_line(run: Path, with_draw: bool) -> None:
    edit(run, lambda lines: lines[3]["label"].update(item="nobody"))
    edit(run, lambda lines: None if with_draw else lines.pop(0))
    done = karenina("calibrate", run)

    assert done.code == 2
    assert f"line {4 if with_draw else 3}: the label is for the answer 'nobody', which the results do not" in done.err


def test_a_row_of_an_unknown_answer_is_refused_with_its_line(run: Path, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("question_id,right\nq1,yes\nnobody,no\n", "utf-8")
    done = karenina("calibrate", run, tmp_path / "s.csv")

    assert done.code == 2
    assert "s.csv, line 3: the row is for an answer that the results do not contain" in done.err


def test_a_broken_draw_is_drawn_again_and_labels_are_kept(run: Path) -> None:
    edit(run, stratum(size=0))

    done = karenina("label", run, "--redraw", "--seed", "1", "--labeller", "ann")
    assert "40 labels were read from" in done.err
    assert karenina("calibrate", run).code == 0
