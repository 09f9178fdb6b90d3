"""The command of a journal, as the user who gave it goes on with it: from the state folder, never from the journal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina_cli.configuration import read_config_section, resolve_recordings
from karenina_core.errors import ConfigError
from karenina_engine.calls.journal_labels import JournalLabels, make_run_line
from karenina_engine.journal.command import digest_trusted_content, has_same_benchmark_config, restore_secrets
from karenina_engine.journal.request import RunRequest
from karenina_engine.journal.user_state import read_own_command
from karenina_engine.journal.view import JournalView
from karenina_toolkit.state_folder import UserStateError

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_cli.screen import Screen


def make_resume_request(screen: Screen, journal: Path) -> RunRequest:
    """Return the last run of the user on the journal, as its command would start it now.

    The working directory is that of the command from here on. Raises `ConfigError` if the user has no such run, or if
    it cannot be started; the message holds the command that the journal describes.
    """
    from karenina_benchmark import Benchmark
    from karenina_core.config import VerificationConfig
    from karenina_engine.journal.command import digest_content
    from karenina_engine.results.result_file import check_output

    labels, command = read_commands(journal)
    if command is None:
        raise ConfigError([_foreign_journal_text(labels, journal)])
    if command["output"] is None:
        raise ConfigError([f"the run of {journal} was started from Python, without a file: start it there once more"])
    path = journal.absolute()
    change_to_run_folder(command)
    # Files outside of its folder are read, and nothing of them is used before `_still_trusted` has compared them.
    benchmark = Benchmark.load(
        command["benchmark"],
        "all" if command["trust_all"] else None,
        skip_broken=command.get("skip_broken", False),
        columns=command.get("columns"),
    )
    if digest_content(benchmark) != command["content"]:
        screen.note(f"{command['benchmark']} has changed since: items of questions that changed run once more.")
    try:
        values = restore_secrets(command["config"], current_settings(benchmark, command))
    except ConfigError as error:
        raise ConfigError([*error.problems, f"  {make_run_line(labels, path)}"]) from error
    output = Path(command["output"])
    check_output(output)
    return RunRequest(
        benchmark,
        VerificationConfig(**values),
        question_ids=existing_ids(screen, benchmark, command["questions"]),
        trust="all" if _still_trusted(screen, benchmark, command) else None,
        output=output,
        journal=path,
        config_file=Path(command["config_file"]) if command["config_file"] is not None else None,
        skip_broken=command.get("skip_broken", False),
        columns=benchmark.columns,
    )


def read_commands(journal: Path) -> tuple[JournalLabels, dict[str, Any] | None]:
    """Return what a journal states of its last run, and the user's own command for it, if there is one.

    Raises `JournalError`, and `ConfigError` for a journal without a run and for a state file that cannot be used.
    """
    with JournalView(journal) as view:
        told, id = view.command(), view.id()
    if told is None:
        raise ConfigError([f"no run has begun in the journal {journal}: give a `karenina run` command"])
    labels = JournalLabels.read(told)
    try:
        return labels, read_own_command(id, journal)
    except UserStateError as error:
        line = f"The journal describes this command; read it before you give it:\n  {make_run_line(labels, journal)}"
        raise ConfigError([*error.problems, line]) from error


def change_to_run_folder(command: Mapping[str, Any]) -> None:
    """Make the working directory that of the user's command. Raises `ConfigError`."""
    try:
        os.chdir(command["folder"])
    except OSError as error:
        raise ConfigError([f"the folder of the run is gone: {command['folder']} ({error.strerror})"]) from error


def current_settings(benchmark: Benchmark, command: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names that the user's configuration file and environment set now.

    The benchmark's own section counts as long as it is the one that the command was given with.
    """
    from karenina_benchmark.config_files import read_config_values
    from karenina_core.config import read_environment

    file = Path(command["config_file"]) if command["config_file"] is not None else None
    table = resolve_recordings(read_config_values(file), file) if file is not None and file.is_file() else {}
    same = has_same_benchmark_config(benchmark, command)
    return {**(read_config_section(benchmark) if same else {}), **table, **dict(read_environment())}


def existing_ids(screen: Screen, benchmark: Benchmark, ids: list[str] | None) -> list[str] | None:
    """Return the ids that the benchmark still has."""
    if ids is None:
        return None
    left = [id for id in ids if id in benchmark]
    if len(left) < len(ids):
        screen.note(f"{len(ids) - len(left)} of its questions are no longer there, and are left out.")
    return left


def _still_trusted(screen: Screen, benchmark: Benchmark, command: Mapping[str, Any]) -> bool:
    """Return whether `--trust-all` of the command holds: it was given for what the benchmark held then."""
    if not command["trust_all"]:
        return False
    if digest_trusted_content(benchmark) == command["trusted"]:
        return True
    screen.note(
        f"--trust-all of the run does not hold any more, because {benchmark.path} has changed since: its code runs "
        f"after `karenina trust {benchmark.path}`, or with the whole `karenina run` command given again."
    )
    return False


def _foreign_journal_text(labels: JournalLabels, journal: Path) -> str:
    return (
        f"you have not run the journal {journal} at this place, so nothing was started: a journal may be anybody's, "
        "and resume goes by the commands that you gave yourself. It describes this one; read it, mend its paths and "
        f"models, and give it to go on from the journal:\n  {make_run_line(labels, journal)}"
    )
