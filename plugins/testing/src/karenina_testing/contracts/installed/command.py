"""The contract for every command that a plugin adds to `karenina`."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from karenina_testing.contracts.installed.command_run import CommandRun, run_command
from karenina_testing.contracts.plugin import PluginContract

_BAD_INPUT: Final = 2
_IMPORTED: Final = re.compile(r"^import '([\w.]+)' #", re.MULTILINE)


class CommandContract(PluginContract):
    """The contract for a command, run as users run it.

    - `command`: its words after `karenina`, such as `("longest",)` or `("model", "list")`.
    - `files`: the text files in the working directory, as a mapping of names to contents.
    - `arguments`: arguments that are accepted; `prints`: part of the resulting standard output.
    - `refused`: arguments that are refused, each with part of the error message.
    """

    command: ClassVar[Sequence[str]]
    files: ClassVar[Mapping[str, str]] = {}
    arguments: ClassVar[Sequence[str]] = ()
    prints: ClassVar[str] = ""
    refused: ClassVar[Mapping[tuple[str, ...], str]]

    def call(self, folder: Path, *arguments: str) -> CommandRun:
        """Run the command with these arguments in `folder`, which gets the files, and return how it ended."""
        for name, text in self.files.items():
            (folder / name).write_text(text, "utf-8")
        return run_command(folder, *self.command, *arguments)

    def test_it_is_listed_with_the_first_line_of_its_help(self, tmp_path: Path) -> None:
        listed = run_command(tmp_path, *self.command[:-1], "--help")
        found = re.search(rf"^\W*{re.escape(self.command[-1])}\s+(\S.*?)\W*$", listed.out, re.MULTILINE)
        assert found, f"`karenina --help` does not list it: {listed.out}{listed.err}"
        shown = self.call(tmp_path, "--help")
        assert (shown.code, shown.err) == (0, "")
        assert found[1] in " ".join(shown.out.split()), "add it with the first line of its docstring as the summary"

    def test_its_module_is_imported_only_when_it_is_called(self, tmp_path: Path) -> None:
        started, called = (
            self._imported(run_command(tmp_path, *words, "--help", PYTHONVERBOSE="1")) for words in ((), self.command)
        )
        assert self.entry_point.partition(":")[0] in started, "declare its entry point in the group karenina.plugins"
        assert called - started, "add it with karenina_terminal.lazy_commands.add_lazy_command"

    def _imported(self, run: CommandRun) -> set[str]:
        """Return the plugin's modules that a command imported."""
        package = self.entry_point.partition(":")[0].partition(".")[0]
        return {name for name in _IMPORTED.findall(run.err) if name.partition(".")[0] == package}

    def test_it_works(self, tmp_path: Path) -> None:
        done = self.call(tmp_path, *self.arguments)
        assert done.code == 0, done.err
        assert self.prints in done.out

    def test_what_it_cannot_use_is_refused_with_a_message(self, tmp_path: Path) -> None:
        assert self.refused, "give the contract arguments that it refuses"
        for arguments, message in self.refused.items():
            done = self.call(tmp_path, *arguments)
            assert (done.code, done.out) == (_BAD_INPUT, ""), done.err
            assert "Traceback" not in done.err, "call what may fail in `with get_screen(ctx).report_errors():`"
            assert message in done.err

    def test_an_unknown_option_is_refused(self, tmp_path: Path) -> None:
        done = self.call(tmp_path, "--no-such-option")
        assert (done.code, done.out) == (_BAD_INPUT, "")
        assert "no-such-option" in done.err
