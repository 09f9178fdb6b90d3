"""Result files with a cut last line, as after a killed run, can be used in every command."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from conftest import Environment
from gene_questions import GENES_IN_ANSWERS


@pytest.fixture
def cut(site: Environment) -> Path:
    """Return the results of a run over two questions, of which the last lacks its end; their journal is beside them."""
    recorded = site.write(
        "answers.jsonl", "".join(json.dumps({"id": id, "answer": "It is BCL2."}) + "\n" for id in ("first", "second"))
    )
    file = site.write("genes.yaml", GENES_IN_ANSWERS)
    done = site.karenina("run", file, "--recordings", recorded)
    assert done.returncode == 0, done.stderr
    results = site.folder / "genes.results.jsonl"
    results.write_bytes(results.read_bytes()[:-200])
    return results


def moved_away(results: Path) -> Path:
    """Move results to a folder without their journal."""
    folder = results.parent / "elsewhere"
    folder.mkdir()
    return results.rename(folder / results.name)


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def ids(text: str) -> list[str]:
    return [line["metadata"]["question_id"] for line in lines(text) if "metadata" in line]


def last_line(file: Path) -> int:
    """Return the number of the last line of a file."""
    return len(file.read_text("utf-8").splitlines())


def test_the_whole_results_are_shown_with_a_warning(site: Environment, cut: Path) -> None:
    shown = site.karenina("show", cut)
    assert shown.returncode == 0
    skipped = f"ends within line {last_line(cut)}, which was skipped; the results before that line (1) are complete"
    assert skipped in shown.stderr
    assert "1 of 1 judged" in shown.stdout


@pytest.mark.parametrize("command", ["export", "rescore", "status", "resume"])
def test_commands_for_journals_take_results_with_their_journal(site: Environment, cut: Path, command: str) -> None:
    done = site.karenina(command, cut)
    assert done.returncode == 0, done.stderr
    assert "genes.results.jsonl is a result file; using its journal" in done.stderr
    if command == "export":
        assert ids(done.stdout) == ["first", "second"]
    if command == "resume":
        assert ids(cut.read_text("utf-8")) == ["first", "second"]


def test_complete_results_of_a_cut_file_are_exported(site: Environment, cut: Path) -> None:
    moved = moved_away(cut)
    done = site.karenina("export", moved)
    assert done.returncode == 0, done.stderr
    assert ids(done.stdout) == ["first"]
    assert "distributions" in lines(done.stdout)[0]["run"]
    assert f"ends within line {last_line(moved)}," in done.stderr
    assert site.karenina("export", moved, "-o", "whole.jsonl").returncode == 0
    assert site.karenina("show", "whole.jsonl").stderr == ""


@pytest.mark.parametrize("command", ["rescore", "status", "resume"])
def test_results_without_a_journal_are_named(site: Environment, cut: Path, command: str) -> None:
    done = site.karenina(command, moved_away(cut))
    assert done.returncode == 2
    assert "is a result file" in done.stderr


@pytest.mark.parametrize(
    ("name", "says"),
    [("genes.journal", "is a journal, not a result file"), ("genes.yaml", "is not a result file")],
)
def test_show_says_what_other_files_are(site: Environment, cut: Path, name: str, says: str) -> None:
    done = site.karenina("show", cut.with_name(name))
    assert done.returncode == 2
    assert says in done.stderr


def test_commands_in_messages_can_be_pasted_for_any_file_name(site: Environment, cut: Path) -> None:
    """A name with a blank is quoted: the command that a message prints finds the file."""
    journal = cut.with_name("my genes.journal")
    journal.write_bytes(cut.with_name("genes.journal").read_bytes())
    done = site.karenina("show", journal)
    (how,) = re.findall(r"`karenina (status .*?)`", " ".join(done.stderr.split()))
    assert site.karenina(*shlex.split(how)).returncode == 0
