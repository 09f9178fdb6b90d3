"""The files of items and the patches of agents, written under their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karenina_core.errors import ConfigError
from karenina_toolkit.kept_files import file_name
from karenina_toolkit.shown_work import shown_patch

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.kept_files import KeptFiles

PATCH: Final = "workspace.patch"
"""The name of the file with an agent's patch."""

_LONGEST: Final = 60


def write_item_files(
    folder: Path, results: Iterable[VerificationResult], kept: KeptFiles, note: Callable[[str], None]
) -> int:
    """Write the files of each result, and an agent's patch as `PATCH`, to a folder below `folder`, which must not
    exist, and return the number of files. `note` is called with a message about each file that is not available. Raises
    `ConfigError` if `folder` exists or cannot be created.

    A result's folder is named after its position and question. Names in results are not trusted. Files whose names are
    equal, or differ only in case, are numbered. A file named `PATCH` replaces the patch.
    """
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ConfigError([f"{folder} cannot be created: {error.strerror}; choose a new folder"]) from error
    written = 0
    for number, result in enumerate(results, 1):
        found: dict[str, bytes] = {}
        taken: dict[str, int] = {}
        for file in result.metadata.files:
            content = kept.find(file)
            if content.problem is not None:
                note(f"item {number}: the file {file.name!r} was left out: {file.left_out or content.problem}")
            else:
                found[_free_name(file_name(file.name), taken)] = content.content
        patch = shown_patch(result)
        if patch is not None:
            found.setdefault(PATCH, patch.encode("utf-8", "replace"))
        if found:
            slug = re.sub(r"[^A-Za-z0-9._-]+", "-", result.question_id).strip("-.")[:_LONGEST]
            place = folder / f"{number}-{slug}"
            place.mkdir()
            for name, data in found.items():
                (place / name).write_bytes(data)
            written += len(found)
    return written


def _free_name(name: str, taken: dict[str, int]) -> str:
    """Return `name`, with a number if it is equal to a name in `taken` or differs from it only in case, and add it to
    `taken`, which has the last number of each name, in lower case.
    """
    path, folded, free = Path(name), name.casefold(), name
    while free.casefold() in taken:
        taken[folded] += 1
        free = f"{path.stem}-{taken[folded]}{path.suffix}"
    taken[free.casefold()] = 1
    return free
