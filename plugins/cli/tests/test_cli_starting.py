"""The start and the end of the command."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED = """
import os, signal, sys

def interrupt(kill=os.kill, process=os.getpid(), number=int(signal.SIGINT)):  # globals may be gone when it is called
    kill(process, number)

class Finder:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            {act}

class Lost:
    def __del__(self, interrupt=interrupt):
        interrupt()

def at_first_line(frame, event, argument):
    if event in ("call", "line") and frame.f_code.co_name == "_run":
        sys.settrace(None)
        interrupt()
    return at_first_line

signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests in the background may ignore it
sys.argv = ["karenina", *{words!r}]
from karenina_cli import main
sys.meta_path.insert(0, Finder())
{before}
main()
"""
MODULES = [
    "karenina_cli.shell_completion",
    "karenina_cli.streams",
    "karenina_cli.app",
    "typer",
    "rich.console",
    "karenina_cli.commands.plugins_command",
    "karenina_core.plugins.registry",
]


def ended(
    module: str = "", act: str = "interrupt()", before: str = "", words: tuple[str, ...] = ("plugins",)
) -> object:
    code = INTERRUPTED.format(module=module, act=act, before=before, words=words)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr.strip()


def test_ctrl_c_at_the_first_line_exits_without_a_traceback() -> None:
    assert ended(before="sys.settrace(at_first_line)") == (130, "", "")


@pytest.mark.parametrize("module", MODULES)
def test_ctrl_c_during_start_exits_without_a_traceback(module: str) -> None:
    assert ended(module) in [(130, "", ""), (130, "", "Stopped."), (130, "", "Aborted.")]


@pytest.mark.parametrize("module", ["karenina_cli.app", "karenina_cli.commands.plugins_command"])
def test_ctrl_c_in_a_destructor_is_not_lost(module: str) -> None:
    assert ended(module, "Lost()") == (130, "", "")


def test_ctrl_c_during_a_completion_exits_without_a_traceback() -> None:
    before = "os.environ['_KARENINA_COMPLETE'] = 'complete_zsh'"

    assert ended("karenina_cli.app", before=before) == (130, "", "")


def test_ctrl_c_after_the_command_exits_without_a_traceback() -> None:
    act = "import atexit; atexit.register(interrupt)"
    code, printed, errors = ended("karenina_cli.app", act, words=("--version",))

    assert (code, errors) == (130, "")
    assert printed.startswith("karenina ")


@pytest.mark.parametrize(("words", "expected"), [(("--version",), 0), (("--unknown",), 2)])
def test_ctrl_c_while_the_interpreter_ends_keeps_the_exit_code(words: tuple[str, ...], expected: int) -> None:
    before = "sys.last_destroyed = Lost()"  # destroyed after the interpreter has restored the system's handler
    code, printed, errors = ended(before=before, words=words)

    assert code == expected, errors
    assert "Traceback" not in errors
    assert printed.startswith("karenina ") or expected


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    """Shell scripts start background jobs in this way."""
    before = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    code, printed, errors = ended("karenina_cli.app", before=before, words=("--version",))

    assert (code, errors) == (0, "")
    assert printed.startswith("karenina ")
