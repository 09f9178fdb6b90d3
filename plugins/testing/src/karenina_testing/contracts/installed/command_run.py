"""The installed `karenina` command, run as users do: in its own process, directory and environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from karenina_core.catalog import install_command

TIMEOUT: Final = 120.0
"""The time limit of a command in seconds."""
_STATE: Final = "state"


@dataclass(frozen=True, slots=True)
class CommandRun:
    """How a command ended: its exit code, standard output and standard error."""

    code: int
    out: str
    err: str


def run_command(folder: Path, *arguments: str | Path, **environment: str) -> CommandRun:
    """Run `karenina` with these arguments in `folder`; `environment` adds environment variables.

    The user's own configuration has no effect: inherited variables that begin with KARENINA_ or PYTEST_ are removed,
    and the home directory is `folder/state`. Raises `LookupError` if the command is not installed, and
    `subprocess.TimeoutExpired` after `TIMEOUT` seconds.
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
    found = shutil.which("karenina", path=sysconfig.get_path("scripts"))
    if found is None:
        command = install_command("karenina-cli")
        raise LookupError(f"the command `karenina` is not installed beside this Python: {command}")
    return found


def _usual_environment() -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KARENINA_", "PYTEST_"))}
    return {**kept, "COLUMNS": "400", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
