"""Output of commands: results to the standard output, everything else to the error output."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from karenina_cli.exit_codes import ExitCode
from karenina_core.errors import KareninaError

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 120
_UNUSUAL = re.compile(r"[^\n\t -~]")
_SPACES = 8
"""How many times longer than the shown line a text may be because of white space."""


@dataclass(frozen=True, slots=True)
class Screen:
    """The two consoles of one call of the command."""

    out: Console
    err: Console

    @classmethod
    def make(cls, *, no_color: bool = False) -> Screen:
        """Return the consoles of this process. `no_color` applies to commands of plugins too."""
        if no_color:
            os.environ["NO_COLOR"] = "1"
        return cls(_console(stderr=False), _console(stderr=True))

    def json(self, value: Any) -> None:
        """Print `value` as JSON, independent of the terminal."""
        sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")
        sys.stdout.flush()

    def json_list(self, name: str, values: Iterable[Any], rest: Mapping[str, Any]) -> None:
        """Print a JSON object: first a list, one value per line and none kept in memory, then the entries of `rest`."""
        write = sys.stdout.write
        write(f"{{\n{json.dumps(name)}: [")
        for number, value in enumerate(values):
            write((",\n" if number else "\n") + json.dumps(value, allow_nan=False))
        write("\n],\n" + json.dumps(dict(rest), indent=2, allow_nan=False).removeprefix("{\n") + "\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Print a message that is not a result."""
        from rich.text import Text

        self.err.print(Text(clean(text)), soft_wrap=True)

    def fail(self, text: str, code: int = ExitCode.BAD_INPUT) -> NoReturn:
        """Print the error and exit."""
        from rich.text import Text

        self.err.print(Text("Error: ", style="bold red") + Text(clean(text)), soft_wrap=True)
        raise typer.Exit(code)

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """Turn bad input into its message and exit code 2, Ctrl-C into 130, and a closed output pipe into 141."""
        try:
            yield
        except KareninaError as error:
            problems = [line for line in str(error).splitlines() if line.strip()]
            self.fail("\n".join(problems) or type(error).__name__)
        except KeyboardInterrupt:
            self.note("Stopped.")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())  # or the interpreter reports it when it flushes at exit
            raise typer.Exit(ExitCode.BROKEN_PIPE) from None


def get_screen(context: typer.Context) -> Screen:
    """Return the screen of the call that `context` belongs to."""
    found = context.find_root().obj
    return found if isinstance(found, Screen) else Screen.make()


def clean(text: str) -> str:
    """Return `text` without control characters, so that texts of models and files cannot control the terminal."""
    return _UNUSUAL.sub(lambda found: found[0] if found[0].isprintable() else _visible(found[0]), text)


def shorten(text: str, most: int) -> str:
    """Return `text` in one line of at most `most` characters."""
    beginning = text[: most * _SPACES]
    line = " ".join(clean(beginning).split())
    return line if len(line) <= most and len(beginning) == len(text) else line[: most - 1].rstrip() + "…"


def quantity(count: int, noun: str) -> str:
    """Return a count with its noun: `1 item`, `2,000 items`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _visible(ch: str) -> str:
    return " " if ch.isspace() else "" if ch == "\r" else f"\\x{ord(ch):02x}"


@cache
def _console_class() -> type[Console]:
    from rich.console import Console

    class PipeSafeConsole(Console):
        def on_broken_pipe(self) -> None:
            """Raise `BrokenPipeError`; rich would exit with 1, which has another meaning here."""
            raise BrokenPipeError

    return PipeSafeConsole


def _console(*, stderr: bool) -> Console:
    console = _console_class()(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPE_WIDTH
    return console
