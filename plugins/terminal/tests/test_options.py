"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from karenina_terminal.options import TableOptions, with_option_groups

pytestmark = pytest.mark.alone

app = typer.Typer()


@app.command()
@with_option_groups
def read(
    *,
    file: Annotated[str, typer.Argument()],
    strict: bool = False,
    tables: TableOptions,
) -> None:
    """Read a table."""
    typer.echo(f"{file} {strict} {tables.parse()}")


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["a.csv"], "a.csv False None"),
        (
            ["a.csv", "--strict", "--columns", "question=Q,answer=A", "--sheet", "two", "--exact"],
            "a.csv True {'question': 'Q', 'answer': 'A', 'sheet': 'two', 'exact': 'true'}",
        ),
    ],
)
def test_a_command_gets_the_options_of_a_group_as_one_value(words: list[str], printed: str) -> None:
    assert CliRunner().invoke(app, words).output.strip() == printed


def test_the_options_of_a_group_are_in_the_help() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"}).output
    assert all(option in shown for option in ("--strict", "--columns", "--rows", "--encoding", "--sheet", "--exact"))


@pytest.mark.parametrize("words", [["--columns", "question"], ["--columns", "answer=A", "--columns", "answer=B"]])
def test_unusable_column_mappings_are_refused(words: list[str]) -> None:
    assert CliRunner().invoke(app, ["a.csv", *words]).exit_code == 2
