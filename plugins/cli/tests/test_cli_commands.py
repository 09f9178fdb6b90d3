"""The list of commands, which imports none of them and agrees with their own help."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from karenina_cli.app import COMMANDS, build_app
from karenina_core.hooks import hookimpl
from karenina_core.plugins import Plugins, use_plugins


@pytest.fixture(autouse=True)
def _no_plugins() -> Iterator[None]:
    with use_plugins(Plugins()):
        yield


def helped(app: typer.Typer, *arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    return done.output


def test_listed_and_loaded_commands_have_the_same_help() -> None:
    assert helped(build_app("")) == helped(build_app())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wanted_command_has_its_full_help(name: str) -> None:
    assert helped(build_app(name), name) == helped(build_app(), name)


def test_commands_of_plugins_are_always_available() -> None:
    class Adds:
        @hookimpl
        def karenina_commands(self, app: typer.Typer) -> None:
            app.command("greet", help="Say hello.")(lambda: typer.echo("hello"))

    plugins = Plugins()
    plugins.register(Adds())
    with use_plugins(plugins):
        assert "Say hello." in helped(build_app("show"))
        assert CliRunner().invoke(build_app("greet"), ["greet"]).output == "hello\n"
