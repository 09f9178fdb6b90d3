"""How the command ends: its exit codes, and what they mean. One table, from which the help and the README are held."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a script that gave the command may go by."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        """A code and what it means."""
        one = int.__new__(cls, code)
        one._value_ = code
        one.meaning = meaning
        return one

    SUCCESS = 0, "the command did all that it was to do; answers may be wrong"
    BELOW_THRESHOLD = 1, "the pass rate is below --fail-under"
    BAD_INPUT = 2, "bad input: a file, option or configuration cannot be used, and no model was asked"
    BUDGET_SPENT = 3, "the budget is spent; `karenina resume JOURNAL --budget MORE` goes on"
    NOTHING_JUDGED = 4, "the run ended and not one item could be judged: each ended in an error"
    FAILED = 70, "an error of the program or a plugin, or the journal or output can no longer be written"
    TIMED_OUT = 124, "run_timeout is over, as timeout(1) ends; `karenina resume JOURNAL` goes on"
    INTERRUPTED = 130, "stopped with Ctrl-C; `karenina resume JOURNAL` goes on"
    BROKEN_PIPE = 141, "who read the output went away (128 and the number of SIGPIPE)"


def exit_codes_help() -> str:
    """The table, as it stands at the end of a command's help."""
    return "\b\nExit codes:\n" + "\n".join(f"  {code.value:<4} {code.meaning}" for code in ExitCode)
