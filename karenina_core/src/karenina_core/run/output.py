"""The file that a run writes its results to. Nothing that stands there already is lost."""

from __future__ import annotations

from pathlib import Path

from karenina_core.errors import ConfigError


def default_output(benchmark: Path) -> Path:
    """Where the results of a benchmark go unless the user says: `<name>.results.jsonl` in the working directory."""
    return Path(f"{benchmark.stem}.results.jsonl")


def make_room(path: Path) -> Path | None:
    """Make `path` free to be written, and return where an earlier file of that name was moved to, if there was one.

    An earlier file with anything in it is renamed to the first free `name-1.jsonl`, `name-2.jsonl`, ...; so the newest
    results always have the name that was asked for, and the same command can be given again. The folder is made where
    it is missing. Raises `ConfigError` where the file could not be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise ConfigError([f"the output {path} is a folder: name a file in it"])
        moved = None
        if path.is_file() and path.stat().st_size > 0:
            moved = _free(path)
            path.rename(moved)
        with path.open("a", encoding="utf-8"):
            return moved
    except OSError as error:
        raise ConfigError([f"the output {path} cannot be written: {error.strerror or error}"]) from error


def _free(path: Path) -> Path:
    stem, suffix = (path.name, "") if not path.suffix else (path.name.removesuffix(path.suffix), path.suffix)
    number = 1
    while (candidate := path.with_name(f"{stem}-{number}{suffix}")).exists():
        number += 1
    return candidate
