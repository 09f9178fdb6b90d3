"""The `karenina` command.

Results are written to standard output. Progress, warnings and errors are written to standard error. Exit codes are
defined in `karenina_terminal.screen`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sys

__all__ = ["main"]

_INTERRUPTED: Final = 130


def main() -> None:
    """Run the command with the process's arguments and exit. After Ctrl-C, the exit code is always 130."""
    try:
        _run()
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    finally:
        _end_at_once_on_interrupt()  # an interrupt while the interpreter shuts down would print a traceback


def _run() -> None:
    """Run the command, or print shell completions. An unexpected exception prints a traceback and exits with 70; if
    output cannot be written, the exit code is that of `exit_for`.

    Imports are local so that Ctrl-C is handled before anything else.
    """
    ends = _end_at_once_on_interrupt()  # an exception that is raised during imports can get lost
    import atexit
    import sys

    if ends:
        atexit.register(_ignore_interrupt)  # registered first, so that it is called last

    from karenina_cli import garbage_collection, shell_completion, streams

    garbage_collection.collect_rarely()
    if shell_completion.is_completing():
        from karenina_cli.app import build_command

        shell_completion.complete(build_command)
        return
    streams.prepare_streams()
    try:
        from karenina_cli.app import build_command

        command = build_command()
        if ends:
            _raise_on_interrupt()
        command()
    except Exception:
        failure = streams.output_failure()
        if failure is not None:
            streams.exit_for(failure)
        import traceback

        traceback.print_exc()
        sys.exit(70)
    finally:
        streams.flush_output()


def _end_at_once_on_interrupt() -> bool:
    """Make Ctrl-C end the process without an exception. Returns False if SIGINT has another handler or is ignored, or
    if this is not the main thread.
    """
    import signal

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    try:
        signal.signal(signal.SIGINT, lambda _number, _frame: _end_at_once())
    except ValueError:  # only the main thread can set signal handlers
        return False
    return True


def _raise_on_interrupt() -> None:
    """Make Ctrl-C raise `KeyboardInterrupt`, so that the command can clean up. Where the exception would be lost, as in
    a destructor, Ctrl-C ends the process at once.
    """
    import signal
    import sys

    def report(unraisable: sys.UnraisableHookArgs) -> None:
        """End the process on a `KeyboardInterrupt` that would be lost. Report other exceptions as usual."""
        if unraisable.exc_type is KeyboardInterrupt:  # raised in a destructor or a callback, where it would be lost
            _end_at_once()
        usual(unraisable)

    usual, sys.unraisablehook = sys.unraisablehook, report
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _ignore_interrupt() -> None:
    """Ignore Ctrl-C at exit. The interpreter is about to restore the default handler, which would end the process with
    the wrong exit code.
    """
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end_at_once() -> None:
    """End the process with the exit code for Ctrl-C, without cleaning up or flushing."""
    import os

    os._exit(_INTERRUPTED)
