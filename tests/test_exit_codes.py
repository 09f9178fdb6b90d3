"""The exit codes of `karenina run`: one table in the help, the docs and the command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import Environment
from gene_questions import GENES_IN_ANSWERS

from karenina_terminal.screen import ExitCode

QUESTION = GENES_IN_ANSWERS.partition("  - id: second")[0]
RUNNING = Path(__file__).parents[1] / "docs/how-to/running.md"


@pytest.mark.parametrize("command", ["run", "resume"])
def test_the_help_lists_every_code(site: Environment, command: str) -> None:
    told = site.karenina(command, "--help").stdout
    assert dict(re.findall(r"^ +(\d+) +(.+)$", told[told.index("Exit codes:") :], re.M)) == {
        str(code.value): code.meaning for code in ExitCode
    }


def test_the_docs_list_every_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", RUNNING.read_text("utf-8"), re.M)
    assert rows == [(str(code.value), code.meaning) for code in ExitCode]


@pytest.mark.parametrize(
    ("answer", "more", "code"),
    [
        ("It is BCL2.", (), 0),
        ("It is TP53.", (), 0),
        ("It is TP53.", ("--fail-under", "0.5"), 1),
        ("It is BCL2.", ("--set", "no_such_name=1"), 2),
        (None, (), 4),
        (None, ("--json",), 4),
        (None, ("--fail-under", "0.5"), 1),
    ],
)
def test_a_run_ends_as_the_table_says(site: Environment, answer: str | None, more: tuple[str, ...], code: int) -> None:
    file = site.write("genes.yaml", QUESTION)
    other = {"id": "first" if answer is not None else "another", "response": answer or "It is BCL2."}
    recorded = site.write("answers.jsonl", json.dumps(other) + "\n")
    done = site.karenina("run", file, "--recordings", recorded, "--partial", "-o", "out.jsonl", *more)
    assert done.returncode == code, done.stderr
    nothing = "No item was judged: the only item ended in an error. `karenina show out.jsonl` shows the reasons"
    assert (nothing in done.stderr) == (answer is None)
