"""The list of commands, which imports none of them and agrees with their own help."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from karenina_cli.app import COMMANDS, build_app
from karenina_core.hooks import hookimpl
from karenina_core.plugins import Plugins, use_plugins
from karenina_terminal.lazy_commands import add_lazy_command

COMMANDS_OF_A_PLUGIN = """
import typer

def greet(name: str) -> None:
    "Greet somebody."
    typer.echo(f"hello {name}")

alone = typer.Typer()

@alone.command(epilog="Bye.")
def wave() -> None:
    "Wave to everybody."

group = typer.Typer(help="Greet in other ways.")

@group.command()
def nod() -> None:
    typer.echo("nodded")

@group.command()
def bow() -> None:
    typer.echo("bowed")
"""


@pytest.fixture(autouse=True)
def _no_plugins() -> Iterator[None]:
    with use_plugins(Plugins()):
        yield


@pytest.fixture
def lazy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[typer.Typer]:
    """Return an application with lazy commands of the module `greetings`, which is unloaded afterwards."""
    (tmp_path / "greetings.py").write_text(COMMANDS_OF_A_PLUGIN, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    class Adds:
        @hookimpl
        def karenina_commands(self, app: typer.Typer) -> None:
            add_lazy_command(app, "greet", "greetings:greet", "Greet somebody.")
            add_lazy_command(app, "wave", "greetings:alone", "Wave to everybody.")
            add_lazy_command(app, "ways", "greetings:group", "Greet in other ways.")
            add_lazy_command(app, "gone", "greetings:gone", "Leave.")
            add_lazy_command(app, "absent", "no_such_module.command:app", "Stay away.")

    plugins = Plugins()
    plugins.register(Adds())
    with use_plugins(plugins):
        yield build_app()
    sys.modules.pop("greetings", None)


def run(app: typer.Typer, *arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160"}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_each_summary_is_the_first_paragraph_of_the_help() -> None:
    helps = {name: run(build_app(), name, "--help").split("\n\n")[1] for name in COMMANDS}

    assert {name: " ".join(text.split()) for name, text in helps.items()} == {
        name: summary for name, (_, summary) in COMMANDS.items()
    }


def test_commands_are_listed_with_their_whole_summaries() -> None:
    listed = " ".join(run(build_app(), "--help").split())
    assert [name for name, (_, summary) in COMMANDS.items() if summary.partition(". ")[0] not in listed] == []
    assert "..." not in listed.partition("Commands:")[2]


def test_commands_of_plugins_are_available() -> None:
    class Adds:
        @hookimpl
        def karenina_commands(self, app: typer.Typer) -> None:
            app.command("greet", help="Say hello.")(lambda: typer.echo("hello"))

    plugins = Plugins()
    plugins.register(Adds())
    with use_plugins(plugins):
        assert "Say hello." in run(build_app(), "--help")
        assert run(build_app(), "greet") == "hello\n"


def test_lazy_commands_are_listed_without_importing_them(lazy: typer.Typer) -> None:
    listed = run(lazy, "--help")

    assert [name in listed for name in ("Greet somebody.", "Wave to everybody.", "Greet in other ways.")] == [True] * 3
    assert "greetings" not in sys.modules


def test_lazy_commands_run_with_their_own_settings(lazy: typer.Typer) -> None:
    assert run(lazy, "greet", "you") == "hello you\n"
    assert run(lazy, "ways", "bow") == "bowed\n"
    assert run(lazy, "wave", "--help").startswith("Usage: karenina wave [OPTIONS]\n\n  Wave to everybody.\n")
    assert "Bye." in run(lazy, "wave", "-h")


def test_a_lazy_command_completes_its_subcommands(lazy: typer.Typer) -> None:
    line = {"_KARENINA_COMPLETE": "complete_bash", "COMP_WORDS": "karenina ways b", "COMP_CWORD": "2"}

    done = CliRunner().invoke(lazy, [], env=line, prog_name="karenina")

    assert done.output.split() == ["bow"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gone", "greetings:gone: AttributeError: module 'greetings' has no attribute 'gone'"),
        ("absent", "no_such_module.command:app: ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_lazy_command_that_cannot_be_imported_is_an_error(lazy: typer.Typer, name: str, why: str) -> None:
    done = CliRunner().invoke(lazy, [name])

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: the command {name!r} cannot be imported from {why}; "
        "update the package that provides the command, or report the error to its authors\n"
    )
