"""Shell completion, limited to values that are safe to pass to a shell."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import typer

BENCHMARKS: Final = (".yaml", ".yml", ".jsonld", ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".xlsx")
CONFIGURATIONS: Final = (".toml", ".yaml", ".yml", ".json")
JOURNALS: Final = (".journal", ".jsonl")
RESULTS: Final = (".jsonl", ".json", ".journal", ".csv", ".parquet", ".xlsx")

_PLAIN: Final = re.compile(r"[\w./@:=,+#~%-]+")


def matching(values: Iterable[str], incomplete: str) -> list[str]:
    """Return the values that start with `incomplete`, without duplicates. Values with unusual characters are omitted,
    because the zsh script evaluates its input, so a value in someone else's file could otherwise run a command.
    """
    return [value for value in dict.fromkeys(values) if value.startswith(incomplete) and _PLAIN.fullmatch(value)]


def complete_files(incomplete: str, endings: Collection[str]) -> list[str]:
    """Return the paths that start with `incomplete`: those of folders, and of files whose names have one of the
    `endings`, ignoring case. If a folder is the only match, its contents are returned instead. Hidden files are only
    included if `incomplete` contains the beginning of their names.

    If there is no match, the shell completes file names itself. Paths that `matching` would omit are omitted here too.
    """
    paths = _list(incomplete, endings)
    if len(paths) == 1 and paths[0].endswith(os.sep):
        return _list(paths[0], endings)
    return paths


def benchmark_files(incomplete: str) -> list[str]:
    """Complete the paths of benchmark files."""
    return complete_files(incomplete, BENCHMARKS)


def journal_files(incomplete: str) -> list[str]:
    """Return the paths of journals and of result files, which commands accept instead of the journal next to them."""
    return complete_files(incomplete, JOURNALS)


def result_files(incomplete: str) -> list[str]:
    """Complete the paths of result files."""
    return complete_files(incomplete, RESULTS)


def named_files(ctx: typer.Context, argument: str) -> list[Path]:
    """Return the files given for `argument`. When completing an option, these are all arguments except options."""
    files = ctx.params.get(argument) or ctx.args
    return [Path(path) for path in ([files] if isinstance(files, (str, Path)) else files)]


def trusted_files(incomplete: str) -> list[str]:
    """Complete the paths of benchmark files and Python files."""
    return complete_files(incomplete, (*BENCHMARKS, ".py"))


def _list(incomplete: str, endings: Collection[str]) -> list[str]:
    """Return the files with one of the `endings`, and the folders, whose paths begin with `incomplete`, sorted. Folders
    end with a slash, and hidden entries need the beginning of their names in `incomplete`. If the folder cannot be
    read, the list is empty.
    """
    folder, name = os.path.split(incomplete)
    try:
        with os.scandir(Path(folder).expanduser()) as entries:
            names = sorted(
                entry.name + (os.sep if entry.is_dir() else "")
                for entry in entries
                if entry.name.startswith(name)
                and (name or not entry.name.startswith("."))
                and (entry.is_dir() or entry.name.lower().endswith(tuple(endings)))
            )
    except (OSError, RuntimeError):  # RuntimeError: the home folder of an unknown user
        return []
    start = incomplete[: len(incomplete) - len(name)]
    return matching((start + entry for entry in names), incomplete)
