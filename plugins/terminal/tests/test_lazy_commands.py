"""Commands that are imported when they are called."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from karenina_terminal.command_hook import lazy_commands
from karenina_terminal.lazy_commands import WholeSummaries, add_lazy_command

pytestmark = pytest.mark.alone

GREETINGS = """
import typer

app, group = typer.Typer(), typer.Typer()


@app.command()
@group.command("one")
def greet(name: str, word: str = "hello", sign: list[str] = []) -> None:
    "Greet somebody."
    typer.echo(f"{word} {name}{''.join(sign)}")


@group.command("two")
def wave() -> None:
    "Wave."


async def wait() -> None:
    "Wait."
"""
SUMMARY = "Greet somebody by a name, " + "which may be a long one, " * 10 + "and say hello."


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[typer.Typer]:
    """Return an application with a command of a module, and with one whose module is missing."""
    (tmp_path / "lazy_greetings.py").write_text(GREETINGS, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    app = typer.Typer(cls=WholeSummaries, rich_markup_mode=None)
    lazy_commands({"greet": ("lazy_greetings:greet", SUMMARY), "absent": ("no_such_module:app", "Stay away.")})(app)
    yield app
    sys.modules.pop("lazy_greetings", None)


def test_a_list_has_whole_summaries_and_imports_nothing(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["--help"])

    assert SUMMARY in " ".join(done.output.split())
    assert "lazy_greetings" not in sys.modules


def test_a_command_that_is_async_is_refused(app: typer.Typer) -> None:
    add_lazy_command(app, "wait", "lazy_greetings:wait", "Wait.")
    done = CliRunner().invoke(app, ["wait"])

    assert done.exit_code == 2
    assert "lazy_greetings:wait: TypeError: the function is async, but commands are not awaited" in done.output


def test_a_call_imports_the_command(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["greet", "Ada"])

    assert (done.exit_code, done.output) == (0, "hello Ada\n")


def test_a_command_that_cannot_be_imported_says_why(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["absent"])

    assert done.exit_code == 2
    assert "the command 'absent' cannot be imported from no_such_module:app: ModuleNotFoundError" in done.output


@pytest.mark.parametrize(
    ("target", "words"), [("greet", ["called"]), ("app", ["called"]), ("group", ["called", "one"])]
)
def test_an_option_with_one_value_is_given_once(app: typer.Typer, target: str, words: list[str]) -> None:
    add_lazy_command(app, "called", f"lazy_greetings:{target}", SUMMARY)
    lists = CliRunner().invoke(app, [*words, "you", "--word", "hi", "--sign", "!", "--sign", "!"])
    twice = CliRunner().invoke(app, [*words, "you", "--word", "hi", "--word", "ho"])

    assert (lists.output, lists.exit_code) == ("hi you!!\n", 0)
    assert twice.exit_code == 2
    assert "Invalid value for '--word': this option takes only one value, but was given more than once" in twice.output
