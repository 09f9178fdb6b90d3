"""The exit codes of the command and their meanings, which the help and docs/how-to/running.md repeat."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """An exit code of the command, with its `meaning`."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        """Return a code with its meaning."""
        one = int.__new__(cls, code)
        one._value_ = code
        one.meaning = meaning
        return one

    SUCCESS = 0, "the command finished; answers may be wrong"
    BELOW_THRESHOLD = 1, "the pass rate is below --fail-under, or more than --max-unjudged items were not judged"
    BAD_INPUT = 2, "bad input: a file, option or configuration cannot be used; no model was called"
    BUDGET_SPENT = 3, "the budget is spent; `karenina resume JOURNAL --budget MORE` continues"
    NOTHING_JUDGED = 4, "the run finished, but no item could be judged: each ended in an error"
    FAILED = 70, "an error in the program or a plugin, or the journal or output could not be written"
    TIMED_OUT = 124, "run_timeout has expired (the code of timeout(1)); `karenina resume JOURNAL` continues"
    INTERRUPTED = 130, "stopped with Ctrl-C; `karenina resume JOURNAL` continues"
    BROKEN_PIPE = 141, "the reader of the output closed it (128 plus the number of SIGPIPE)"


def exit_codes_help(*, resumable: bool = True) -> str:
    """Return the table of exit codes for the end of a command's help, with the way to continue its run."""
    table = "\b\nExit codes:\n" + "\n".join(f"  {code.value:<4} {code.meaning}" for code in ExitCode)
    if resumable:
        return table
    more = table.replace("`karenina resume JOURNAL --budget MORE`", "the same command with a larger budget")
    return more.replace("`karenina resume JOURNAL`", "the same command")
