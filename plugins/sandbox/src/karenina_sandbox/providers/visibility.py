"""Finding what a program that stays open needs and bubblewrap's sandbox does not contain, before it is started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from karenina_sandbox.providers.mounts import OWN, environment_of, follow_links, visible_paths
from karenina_sandbox.sandbox import Policy, SandboxError


def find_missing(command: Sequence[str], policy: Policy) -> str | None:
    """Return a message about the paths of a command that the sandbox does not contain, with what to add to
    `sandbox_mounts`, or about an interpreter in `policy` that cannot be used. Returns None if nothing is missing.

    Paths are the program, the interpreter that its first line names, and arguments that are absolute paths.
    """
    try:
        visible = [place for path in visible_paths(policy) for place in (path, path.resolve())]
    except SandboxError as error:
        return str(error)
    wanted = [*_programs(command[0], policy), *_arguments(command[1:])]
    missing = [path for path in dict.fromkeys(wanted) if not any(path.is_relative_to(place) for place in visible)]
    if not missing:
        return None
    needed = ", ".join(dict.fromkeys(str(_folder_of(path)) for path in missing))
    named = ", ".join(map(str, missing))
    why = "" if named == command[0] else f", which {command[0]} needs"
    return f"the sandbox does not contain {named}{why}; add {needed} to sandbox_mounts"


def _programs(program: str, policy: Policy) -> Iterator[Path]:
    """Yield a program, the links that lead to it, and, if it is a script, its interpreter with the links to it. An
    interpreter that the script starts with `env` is found in the PATH of `policy`.
    """
    yield from follow_links(Path(program))
    real = Path(program).resolve()
    yield real
    words: list[str] = []
    with suppress(OSError), real.open("rb") as file:
        line = file.read(1000).partition(b"\n")[0]
        words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if not words:
        return
    yield from follow_links(Path(words[0]))
    name = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), None)
    if Path(words[0]).name == "env" and name is not None:
        found = shutil.which(name, path=environment_of(policy)["PATH"]) or shutil.which(name)
        if found is not None:
            yield from follow_links(Path(found).absolute())


def _arguments(words: Sequence[str]) -> Iterator[Path]:
    """Yield the existing absolute paths that are arguments, or values of options such as `--file=PATH`, except those of
    the system.
    """
    for word in words:
        path = Path(word.partition("=")[2] if word.startswith("-") else word)
        with suppress(OSError, ValueError):
            system = path.is_relative_to("/proc") or path.is_relative_to("/dev") or str(path) in OWN
            if path.is_absolute() and not system and path.exists():
                yield Path(os.path.normpath(path))


def _folder_of(path: Path) -> Path:
    """Return what to mount to make a path readable: a folder itself, or a file's installation or folder, or only the
    file if that would include the home folder.
    """
    if path.is_dir():
        return path
    prefix = path.parent.parent
    installed = (prefix / "pyvenv.cfg").is_file() or (path.parent.name == "bin" and (prefix / "lib").is_dir())
    folder = prefix if installed else path.parent
    return path if Path(os.path.expanduser("~")).is_relative_to(folder) else folder  # noqa: PTH111 - it may be unknown
