"""The command in this process; only documented exit codes are allowed."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from typing import Any, Final
from unittest.mock import patch

import typer

from karenina_cli.app import build_app
from karenina_terminal.screen import ExitCode

_DOCUMENTED: Final = {int(code) for code in ExitCode} - {ExitCode.FAILED}


def command(*arguments: str) -> str:
    """Run the command and return its output. Raises `AssertionError` for an undocumented exit code."""
    printed = io.BytesIO()
    out = io.TextIOWrapper(printed, "utf-8", write_through=True)
    err = io.TextIOWrapper(printed, "utf-8", "backslashreplace", write_through=True)
    code: object = 0
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())):
        try:
            _built().main(list(arguments), prog_name="karenina")
        except SystemExit as end:
            code = end.code or 0
    output = printed.getvalue().decode("utf-8", "replace")
    of_the_journal = any(words in output for words in (" is damaged: ", " cannot be written: "))  # has the code 70
    if code not in _DOCUMENTED and not (code == ExitCode.FAILED and of_the_journal):
        raise AssertionError(f"`karenina {' '.join(arguments)}` ended with {code}: {output[-300:]}")
    if "Traceback (most recent call last)" in output:
        raise AssertionError(f"`karenina {' '.join(arguments)}` printed a traceback: {output[-300:]}")
    return output


@cache
def _built() -> Any:
    """Return the command; building it takes longer than most inputs."""
    return typer.main.get_command(build_app())
