"""The `karenina` command.

It prints results to the standard output, and progress, warnings and errors to the error output. Its exit codes are in
`karenina_terminal.screen`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sys

__all__ = ["main"]

_INTERRUPTED: Final = 130


def main() -> None:
    """Run the command with the arguments of the process, and exit with its code; after Ctrl-C always with 130."""
    try:
        _run()
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    finally:
        _end_at_once_on_interrupt()  # the interpreter has yet to end, and would print a traceback


def _run() -> None:
    ends = _end_at_once_on_interrupt()  # while modules are imported, an exception can get lost
    import atexit
    import sys

    if ends:
        atexit.register(_ignore_interrupt)  # first, so that it is called after all that modules register

    from karenina_cli import shell_completion, streams

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
    """Let Ctrl-C end the process without an exception; return False if others handle it, or it is ignored."""
    import signal

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    try:
        signal.signal(signal.SIGINT, lambda _number, _frame: _end_at_once())
    except ValueError:  # only the main thread handles signals
        return False
    return True


def _raise_on_interrupt() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt`, so that the command can end what it does."""
    import signal
    import sys

    def report(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is KeyboardInterrupt:  # it was raised in a destructor or a callback, and is lost
            _end_at_once()
        usual(unraisable)

    usual, sys.unraisablehook = sys.unraisablehook, report
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _ignore_interrupt() -> None:
    """Ignore Ctrl-C, since everything is done: the interpreter is about to restore the handler of the system, by which
    the process would end without its exit code."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end_at_once() -> None:
    import os

    os._exit(_INTERRUPTED)
