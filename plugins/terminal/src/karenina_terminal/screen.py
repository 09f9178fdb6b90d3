"""The output and exit codes of commands. Results go to standard output, and everything else to standard error."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from enum import IntEnum
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import typer

from karenina_core.errors import KareninaError
from karenina_terminal.text_layout import LEAST_WIDTH
from karenina_toolkit.printable import clean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


class ExitCode(IntEnum):
    """An exit code of `karenina`, with its `meaning`."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        """Create an exit code with the number `code` and the given meaning."""
        status = int.__new__(cls, code)
        status._value_ = code
        status.meaning = meaning
        return status

    SUCCESS = 0, "the command finished; answers may be wrong"
    BELOW_THRESHOLD = 1, "the pass rate is below --fail-under, or more than --max-unjudged items were not judged"
    BAD_INPUT = 2, "bad input: a file, option or configuration cannot be used; no model was called"
    BUDGET_SPENT = 3, "the budget is spent; run `karenina resume JOURNAL --budget MORE` to continue"
    NOTHING_JUDGED = 4, "the run finished, but no item could be judged because each ended in an error"
    FAILED = 70, "an error in the program or a plugin, or the journal or output could not be written"
    TIMED_OUT = (
        124,
        "run_timeout expired (124 is the exit code of timeout(1)); run `karenina resume JOURNAL` to continue",
    )
    INTERRUPTED = 130, "stopped with Ctrl-C; run `karenina resume JOURNAL` to continue"
    BROKEN_PIPE = 141, "the reader of the output closed the pipe (128 plus the number of SIGPIPE)"


def exit_codes_help(*, resumable: bool = True) -> str:
    """Return the table of exit codes for the end of a command's help. Set `resumable` to False for runs that `karenina
    resume` cannot continue.
    """
    table = "\b\nExit codes:\n" + "\n".join(f"  {code.value:<4} {code.meaning}" for code in ExitCode)
    if resumable:
        return table
    more = table.replace("`karenina resume JOURNAL --budget MORE`", "the same command with a larger budget")
    return more.replace("`karenina resume JOURNAL`", "the same command")


_PIPE_WIDTH = 120
_PIPE_HEIGHT = 25
_UNLIMITED = 1_000_000
_HANGING = 4
"""The minimum indentation of the continuation lines of a wrapped line."""


class Screen(NamedTuple):
    """The two consoles that one invocation of a command uses."""

    out: Console
    err: Console

    @classmethod
    def make(cls, *, no_color: bool = False) -> Screen:
        """Create the consoles of this process. `no_color` also sets the environment variable `NO_COLOR` for plugins."""
        if no_color:
            os.environ["NO_COLOR"] = "1"
        return cls(_console(stderr=False), _console(stderr=True))

    def json(self, value: Any) -> None:
        """Print `value` as JSON. Raises `ValueError` if it contains NaN or infinity."""
        self.out.file.write(json.dumps(value, indent=2, allow_nan=False) + "\n")
        self.out.file.flush()

    def json_list(self, name: str, values: Iterable[Any], rest: Mapping[str, Any]) -> None:
        """Print a JSON object that contains the list `name`, followed by the entries of `rest`, which must not be
        empty. Each value is printed on a line of its own as soon as it is read, so part of the output is there if
        `values` raises an exception, or a value contains NaN or infinity, for which `ValueError` is raised.
        """
        write = self.out.file.write
        write(f"{{\n{json.dumps(name)}: [")
        for number, value in enumerate(values):
            write((",\n" if number else "\n") + json.dumps(value, allow_nan=False))
        write("\n],\n" + json.dumps(dict(rest), indent=2, allow_nan=False).removeprefix("{\n") + "\n")
        self.out.file.flush()

    def note(self, text: str) -> None:
        """Print a message to standard error. Control characters are shown in visible form."""
        from rich.text import Text

        self.err.print(Text(clean(text)), soft_wrap=True)

    def fail(self, text: str, code: int = ExitCode.BAD_INPUT) -> NoReturn:
        """Print an error to standard error, and exit with `code` by raising `typer.Exit`. Control characters are shown
        in visible form.
        """
        from rich.text import Text

        self.err.print(Text("Error: ", style="bold red") + Text(clean(text)), soft_wrap=True)
        raise typer.Exit(code)

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """Print a `KareninaError` that is raised in the `with` block, or an error about a file name that is too long,
        and exit with code 2. The exit code is 130 after Ctrl-C, and 141 after a broken pipe. Other exceptions
        propagate.
        """
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
            os.dup2(nowhere, self.out.file.fileno())  # otherwise flushing at exit reports it again
            raise typer.Exit(ExitCode.BROKEN_PIPE) from None
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:  # other errors are handled where the file is used
                raise
            self.fail(f"{error.filename} cannot be used as a file name: {error.strerror}; use a shorter name")


def get_screen(context: typer.Context) -> Screen:
    """Return the screen of a command's invocation. If it has none, return a new one."""
    screen = context.find_root().obj
    return screen if isinstance(screen, Screen) else Screen.make()


def print_only_results(context: typer.Context) -> None:
    """Redirect `sys.stdout` to standard error until the command ends, so that plugins that print do not add to output
    that programs read. The command's screen still writes to standard output.
    """
    context.find_root().obj = get_screen(context)
    context.with_resource(redirect_stdout(sys.stderr))


def print_wrapped(console: Console, text: Text) -> None:
    """Print text. On a terminal, lines are wrapped between words, and continuation lines are indented."""
    for line in text.split("\n") if console.is_terminal else ():
        depth = max(len(line.plain) - len(line.plain.lstrip()), _HANGING)
        first, *others = line.wrap(console, max(console.width - depth, LEAST_WIDTH)) or [line]
        console.print(first, soft_wrap=True)
        for other in others:
            other.pad_left(depth)
            console.print(other, soft_wrap=True)
    if not console.is_terminal:
        console.print(text, soft_wrap=True)


def print_rows(console: Console, rows: Sequence[Sequence[str]], texts: Collection[int] = (0,)) -> None:
    """Print a table with a heading row. The columns whose indexes are in `texts` are wrapped, and all others contain
    numbers. On a terminal, or if `COLUMNS` is set, the table is made to fit that width; otherwise, each row is a single
    line. Control characters are shown in visible form.
    """
    from karenina_terminal.text_layout import format_table

    width = console.width if console.is_terminal or "COLUMNS" in os.environ else _UNLIMITED
    for line in format_table([[clean(cell) for cell in row] for row in rows], width, texts):
        console.print(line, markup=False, soft_wrap=True)


@cache
def _console_class() -> type[Console]:
    """Return a subclass of rich's `Console` that supports pipes. The class is defined in this function so that rich is
    only imported when needed.
    """
    from rich.console import Console

    from karenina_terminal.styled_text import WholeText

    class PipeSafeConsole(Console):
        @cached_property
        def is_terminal(self) -> bool:
            """Whether the console writes to a terminal. rich would look at the environment each time."""
            return super().is_terminal

        def on_broken_pipe(self) -> None:
            """Raise `BrokenPipeError`. By default, rich would exit with code 1, which has another meaning here."""
            raise BrokenPipeError

        def print(self, *objects: Any, **options: Any) -> None:
            """Print the objects. Except on a terminal, rich's padding spaces are removed."""
            if self.is_terminal:
                super().print(*objects, **options)
                return
            if len(objects) == 1 and isinstance(objects[0], WholeText):  # rich would take as long as its layout
                lines = objects[0].lines
            else:
                with self.capture() as captured:
                    super().print(*objects, **options)
                lines = captured.get().split("\n")
            self.file.write("\n".join([line.rstrip(" ") for line in lines]))
            self.file.flush()

    return PipeSafeConsole


def _console(*, stderr: bool) -> Console:
    """Return a console for standard output, or for standard error if `stderr` is set. If it is not a terminal and
    `COLUMNS` is not set, its size is `_PIPE_WIDTH` by `_PIPE_HEIGHT`.
    """
    file = sys.stderr if stderr else sys.stdout
    console = _console_class()(file=file, stderr=stderr, highlight=False, emoji=False)  # `:bug:` is printed as written
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.size = (_PIPE_WIDTH, _PIPE_HEIGHT)  # without a height, rich looks for a terminal at each `print`
    return console
