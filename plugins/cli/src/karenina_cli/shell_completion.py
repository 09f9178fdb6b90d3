"""Shell completion, called by the shell's completion script.

The scripts come from Typer (`karenina --show-completion`). They call `karenina` with the command line in environment
variables, and `karenina` prints one completion per line. After an error, nothing is printed.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from typing import Final

VARIABLE: Final = "_KARENINA_COMPLETE"
_BREAKS: Final = (":", "=", "@")
"""The characters in bash's `COMP_WORDBREAKS` that occur in models and settings."""


def is_completing() -> bool:
    """Return whether a shell started this process to complete a command line."""
    return os.environ.get(VARIABLE, "").startswith("complete_")


def complete(build: Callable[[], Callable[..., object]]) -> None:
    """Print the completions for the command line in the environment. If an error occurs, nothing is printed, and none
    is raised. `build` returns the command.
    """
    prefix = _join_divided_words() if os.environ[VARIABLE] == "complete_bash" else ""
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(Exception, SystemExit),
    ):
        build()(prog_name="karenina")
    lines = [line.removeprefix(prefix) for line in printed.getvalue().splitlines()]
    sys.stdout.write("".join(f"{line}\n" for line in lines if line))


def _join_divided_words() -> str:
    """Join the words in the environment that bash has split at `:`, `=` and `@`, changing `os.environ`, and return the
    start of the current word, which must not be printed again.

    Bash keeps this part and replaces only the text after the last of these characters, so completions are printed
    without it.
    """
    words = os.environ.get("COMP_WORDS", "").split("\n")
    current = int(os.environ.get("COMP_CWORD", "0"))
    if len(words) <= 1 or current >= len(words):
        return ""
    joined: list[str] = []
    at = 0
    start = ""
    for number, word in enumerate(words):
        follows = words[number - 1][-1:] in _BREAKS and not word.startswith("-")
        if number > 1 and (word[:1] in _BREAKS or follows):
            start = joined[-1] + (word if word[:1] in _BREAKS else "")
            joined[-1] += word
        else:
            start = ""
            joined.append(word)
        if number == current:
            at = len(joined) - 1
            break
    os.environ["COMP_WORDS"] = "\n".join(joined)
    os.environ["COMP_CWORD"] = str(at)
    return start
