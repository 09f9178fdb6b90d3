"""The command in this process; only documented exit codes are allowed."""

from __future__ import annotations

from functools import cache
from typing import Final

import typer
from typer.testing import CliRunner

from karenina_cli.app import build_app
from karenina_cli.exit_codes import ExitCode

_DOCUMENTED: Final = {int(code) for code in ExitCode} - {ExitCode.FAILED}


def command(*arguments: str) -> str:
    """Run the command and return its output. Raises `AssertionError` for an undocumented exit code."""
    done = CliRunner().invoke(_app(arguments[0]), list(arguments), catch_exceptions=False, input="")
    of_the_journal = any(words in done.output for words in (" is damaged: ", " cannot be written: "))  # has the code 70
    if done.exit_code not in _DOCUMENTED and not (done.exit_code == ExitCode.FAILED and of_the_journal):
        raise AssertionError(f"`karenina {' '.join(arguments)}` ended with {done.exit_code}: {done.output[-300:]}")
    if "Traceback (most recent call last)" in done.output:
        raise AssertionError(f"`karenina {' '.join(arguments)}` printed a traceback: {done.output[-300:]}")
    return done.output


@cache
def _app(wanted: str) -> typer.Typer:
    return build_app(wanted)
