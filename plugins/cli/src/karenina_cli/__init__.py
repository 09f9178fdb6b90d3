"""The `karenina` command.

It prints results to the standard output, and progress, warnings and errors to the error output. Its exit codes are in
`karenina_cli.exit_codes`.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command with the arguments of the process, and exit with its code."""
    import sys

    from karenina_cli import shell_completion, streams

    if shell_completion.is_completing():
        from karenina_cli.app import build_command

        shell_completion.complete(build_command)
        return
    streams.prepare_streams()
    try:
        from karenina_cli.app import build_command

        build_command()()
    except KeyboardInterrupt:
        sys.exit(130)  # before a command has started
    except Exception:
        failure = streams.output_failure()
        if failure is not None:
            streams.exit_for(failure)
        import traceback

        traceback.print_exc()
        sys.exit(70)
    finally:
        streams.flush_output()
