"""Runs of the installed command `karenina`, and the contract for plugins' commands.

Each command runs in its own process, with its own directory and environment.
"""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from karenina_core.catalog import install_command
from karenina_testing.contracts.plugin import PluginContract

TIMEOUT: Final = 120.0
"""The time limit for a command, in seconds."""
BAD_INPUT: Final = 2
"""The exit code of a command that rejects its input."""
_IMPORTED: Final = re.compile(r"^import '([\w.]+)' #", re.MULTILINE)
_STATE: Final = "state"


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A finished command's exit code, output and error output."""

    code: int
    out: str
    err: str


def run_command(folder: Path, *arguments: str | Path, **environment: str) -> CommandRun:
    """Run `karenina` in `folder` with the given arguments and additional environment variables, but without the user's
    own configuration, and return its exit code and output. Raises `LookupError` if the command is not installed, and
    `subprocess.TimeoutExpired` after `TIMEOUT` seconds.

    Variables that begin with KARENINA_ or PYTEST_ are removed, and the home directory is `folder/state`. Standard input
    is empty.
    """
    state = folder / _STATE
    state.mkdir(exist_ok=True)
    done = subprocess.run(  # noqa: S603 - the command of this installation, with the arguments of a test
        [_find_command(), *map(str, arguments)],
        cwd=folder,
        env={**_usual_environment(), "HOME": str(state), "XDG_STATE_HOME": str(state), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=TIMEOUT,
    )
    return CommandRun(done.returncode, done.stdout, done.stderr)


def _find_command() -> str:
    """Return the path of the command `karenina`. Raises `LookupError` if it is not next to this Python."""
    path = shutil.which("karenina", path=sysconfig.get_path("scripts"))
    if path is None:
        command = install_command("karenina-cli")
        raise LookupError(
            f"the command `karenina` is not installed in this Python environment; install it with: {command}"
        )
    return path


def _usual_environment() -> Mapping[str, str]:
    """Return the environment for wide, plain output, without Karenina's and pytest's variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KARENINA_", "PYTEST_"))}
    return {**environment, "COLUMNS": "400", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}


class CommandContract(PluginContract):
    """The contract for a command, which is run like a user would run it.

    - `command`: the words after `karenina`, such as `("longest",)` or `("model", "list")`.
    - `files`: the text files in the working directory, as a mapping from names to contents.
    - `arguments`: arguments that are accepted; `prints`: part of the resulting standard output.
    - `refused`: arguments that are rejected, each with part of the error message.
    """

    command: ClassVar[Sequence[str]]
    files: ClassVar[Mapping[str, str]] = {}
    arguments: ClassVar[Sequence[str]] = ()
    prints: ClassVar[str] = ""
    refused: ClassVar[Mapping[tuple[str, ...], str]]

    def call(self, folder: Path, *arguments: str) -> CommandRun:
        """Create the files in `folder`, and run the command there with the given arguments."""
        for name, text in self.files.items():
            (folder / name).write_text(text, "utf-8")
        return run_command(folder, *self.command, *arguments)

    def test_it_is_listed_with_the_first_line_of_its_help(self, tmp_path: Path) -> None:
        listed = run_command(tmp_path, *self.command[:-1], "--help")
        match = re.search(rf"^\W*{re.escape(self.command[-1])}\s+(\S.*?)\W*$", listed.out, re.MULTILINE)
        assert match, f"`karenina --help` does not list the command: {listed.out}{listed.err}"
        shown = self.call(tmp_path, "--help")
        assert (shown.code, shown.err) == (0, "")
        assert match[1] in " ".join(shown.out.split()), (
            "add the command with the first line of its docstring as the summary"
        )

    def test_its_module_is_imported_only_when_it_is_called(self, tmp_path: Path) -> None:
        started, called = (
            self._imported(run_command(tmp_path, *words, "--help", PYTHONVERBOSE="1")) for words in ((), self.command)
        )
        assert self.entry_point.partition(":")[0] in started, (
            "declare the plugin's entry point in the group 'karenina.plugins'"
        )
        assert called - started, "add the command with karenina_terminal.lazy_commands.add_lazy_command"

    def _imported(self, run: CommandRun) -> set[str]:
        """Return the plugin's modules that the command imported."""
        package = self.entry_point.partition(":")[0].partition(".")[0]
        return {name for name in _IMPORTED.findall(run.err) if name.partition(".")[0] == package}

    def test_it_works(self, tmp_path: Path) -> None:
        done = self.call(tmp_path, *self.arguments)
        assert done.code == 0, done.err
        assert self.prints in done.out

    def test_what_it_cannot_use_is_refused_with_a_message(self, tmp_path: Path) -> None:
        assert self.refused, "define arguments that the command refuses"
        for arguments, message in self.refused.items():
            done = self.call(tmp_path, *arguments)
            assert (done.code, done.out) == (BAD_INPUT, ""), done.err
            assert "Traceback" not in done.err, "wrap code that may fail in `with get_screen(ctx).report_errors():`"
            assert message in done.err

    def test_an_unknown_option_is_refused(self, tmp_path: Path) -> None:
        done = self.call(tmp_path, "--no-such-option")
        assert (done.code, done.out) == (BAD_INPUT, "")
        assert "no-such-option" in done.err
