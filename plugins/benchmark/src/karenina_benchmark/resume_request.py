"""The request made by `karenina resume`. The command comes from the user's state folder, never from the journal."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from karenina_benchmark.config.config_files import read_config_section, resolve_recordings
from karenina_core.data.trust import Trust
from karenina_core.errors import ConfigError
from karenina_engine.calls.journal_labels import JournalLabels, make_run_line
from karenina_engine.journal.command import digest_trusted_content, has_same_benchmark_config, restore_secrets
from karenina_engine.journal.named_files import describe_changes, find_changes, has_same_data
from karenina_engine.journal.user_state import read_own_command
from karenina_engine.journal.view import JournalView
from karenina_engine.run.request import RunRequest
from karenina_engine.user_files import load_trust
from karenina_toolkit.files.state_folder import UserStateError
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark


def make_resume_request(journal: Path, note: Callable[[str], None]) -> RunRequest:
    """Return a request that repeats the user's last command for a journal, with current files and keys. This changes
    the process's working directory to that of the command, and calls `note` with what has changed since then. Nothing
    is run yet. Raises `ConfigError` if the user has no such command or it cannot be repeated, and `RestrictedValues` if
    the benchmark refers to files that need trust.

    The message of a `ConfigError` usually shows the command in the journal.
    """
    from karenina_benchmark import Benchmark
    from karenina_core.config import VerificationConfig
    from karenina_engine.check.restricted_values import RestrictedValues
    from karenina_engine.journal.command import digest_content
    from karenina_engine.results.result_file import check_output

    labels, command = read_commands(journal)
    if command is None:
        unnamed = f"{describe_unnamed(journal)}. To continue from the journal, repeat that command or program with it"
        raise ConfigError([_foreign_journal_text(labels, journal) if labels.benchmark else unnamed])
    if command["output"] is None:
        what = "was started from Python, without a result file; rerun it from Python"
        raise ConfigError([f"the run recorded in {journal} {what}"])
    path = journal.absolute()
    change_to_run_folder(command)
    changes = find_changes(command)
    if changes:
        raise ConfigError(
            [
                *changes,
                "resume requires the files of the run to be unchanged, so nothing was read or started. Review "
                "the changes, then run the whole command again:",
                f"  {make_run_line(labels, path)}",
            ]
        )
    try:
        benchmark = Benchmark.load(
            command["benchmark"],
            _trust_in_paths(command),
            skip_broken=command.get("skip_broken", False),
            columns=command.get("columns"),
        )
    except RestrictedValues:
        if command["trust_all"]:
            _note_changed_content(command, note)
        raise
    if digest_content(benchmark) != command["content"]:
        note(f"{command['benchmark']} has changed since the run, so items of changed questions will run again.")
    try:
        values = restore_secrets(command["config"], current_settings(benchmark, command))
    except ConfigError as error:
        raise ConfigError([*error.problems, f"  {make_run_line(labels, path)}"]) from error
    output = Path(command["output"])
    check_output(output)
    return RunRequest(
        benchmark,
        VerificationConfig(**values).with_benchmark_names(command["benchmark_names"]),
        question_ids=existing_ids(benchmark, command["questions"], note),
        trust="all" if _still_trusted(benchmark, command, note) else None,
        output=output,
        journal=path,
        config_file=Path(command["config_file"]) if command["config_file"] is not None else None,
        skip_broken=command.get("skip_broken", False),
        columns=benchmark.columns,
    )


def read_commands(journal: Path) -> tuple[JournalLabels, dict[str, Any] | None]:
    """Return the labels of a journal's last run, and the user's own command for this run, or None. Raises
    `JournalError` if the journal cannot be read, and `ConfigError` if it contains no run or the state file cannot be
    used.
    """
    with JournalView(journal) as view:
        stored, id = view.command(), view.id()
    if stored is None:
        raise ConfigError([f"the journal {journal} contains no run; start a run with `karenina run`"])
    labels = JournalLabels.read(stored)
    try:
        return labels, read_own_command(id, journal)
    except UserStateError as error:
        line = f"The journal contains this command; read it before you run it:\n  {make_run_line(labels, journal)}"
        raise ConfigError([*error.problems, line]) from error


def change_to_run_folder(command: Mapping[str, Any]) -> None:
    """Change the working directory of the process to `folder` in `command`, where the user started the run. Raises
    `ConfigError` if this fails.
    """
    try:
        os.chdir(command["folder"])
    except OSError as error:
        raise ConfigError(
            [
                f"cannot open the folder of the run: {command['folder']} ({error.strerror}); run the whole "
                "command in another folder"
            ]
        ) from error


def current_settings(benchmark: Benchmark, command: Mapping[str, Any]) -> dict[str, Any]:
    """Return the current settings by full name. The environment overrides the user's configuration file, which
    overrides the benchmark's `config` section. The section is left out if it has changed since the `command` was run.
    """
    from karenina_benchmark.config.config_files import read_config_values
    from karenina_core.config import read_environment

    file = Path(command["config_file"]) if command["config_file"] is not None else None
    table = resolve_recordings(read_config_values(file), file) if file is not None and file.is_file() else {}
    same = has_same_benchmark_config(benchmark, command)
    return {**(read_config_section(benchmark) if same else {}), **table, **dict(read_environment())}


def existing_ids(benchmark: Benchmark, ids: list[str] | None, note: Callable[[str], None]) -> list[str] | None:
    """Return the ids that are still in the benchmark, or None (all questions) if `ids` is None. `note` prints how many
    are missing.
    """
    if ids is None:
        return None
    left = [id for id in ids if id in benchmark]
    if len(left) < len(ids):
        note(f"Left out {quantity(len(ids) - len(left), 'question')} of the run that the benchmark no longer contains.")
    return left


def _trust_in_paths(command: Mapping[str, Any]) -> Trust:
    """Return the user's trust. It includes the files outside the folder that the command's `--trust-all` covered, but
    only if the data has not changed since then.
    """
    stored = load_trust()
    if not command["trust_all"] or command["paths"] is None or not has_same_data(command):
        return stored
    return Trust(stored.digests | {command["paths"]})


def _still_trusted(benchmark: Benchmark, command: Mapping[str, Any], note: Callable[[str], None]) -> bool:
    """Return whether the command's `--trust-all` still applies, because nothing that it covers has changed. If it no
    longer applies, `note` prints the reason.
    """
    if not command["trust_all"]:
        return False
    if digest_trusted_content(benchmark) == command["trusted"]:
        return True
    _note_changed_content(command, note)
    return False


def _note_changed_content(command: Mapping[str, Any], note: Callable[[str], None]) -> None:
    """Tell the user through `note` why the run's `--trust-all` no longer applies, and what to do."""
    file = command["benchmark"]
    changes = "; ".join(describe_changes(command)) or (
        f"the settings in {file} have a different meaning with the installed plugins"
    )
    note(
        f"The run's --trust-all no longer applies because something has changed: {changes}. To run the benchmark's "
        f"code, use `karenina trust {quote(str(file))}`, or run the whole `karenina run` command again."
    )


def describe_unnamed(journal: Path) -> str:
    """Return the start of the message for a journal whose run has no benchmark file, so that `resume` has none."""
    return (
        f"{journal} belongs to a run without a benchmark file, such as one of `karenina judge`, `karenina draft`, "
        "`karenina selftest` or a Python program"
    )


def _foreign_journal_text(labels: JournalLabels, journal: Path) -> str:
    """Return the message for a journal that is not the user's own, with the command recorded in it."""
    line = make_run_line(labels, journal)
    hidden = ", replace each '***' with the hidden value (such as the path in a server URL)"
    return (
        f"{journal} was not written at this path by one of your runs (it was copied, moved, or made by another user). "
        "Nothing was started because resume repeats only your own commands. The journal contains the command below. "
        "To continue from the journal, read the command, correct its paths and "
        f"models{hidden if '***' in line else ''}, and run it:\n  {line}"
    )
