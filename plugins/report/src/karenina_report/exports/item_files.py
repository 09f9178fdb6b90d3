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
    """Write the files of each result to a folder below `folder`, which must not exist, and return the number of files.
    `note` is called with a message about each file that cannot be written. Raises `ConfigError` if `folder` exists or
    cannot be created.

    A result's folder is named after its position and question. Names in results are not trusted.
    """
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ConfigError([f"{folder} cannot be created: {error.strerror}; choose a new folder"]) from error
    count = 0
    for number, result in enumerate(results, 1):
        found = {}
        for file in result.metadata.files:
            content = kept.find(file)
            if content.problem is not None:
                note(f"item {number}: the file {file.name!r} was left out: {file.left_out or content.problem}")
            else:
                found[file_name(file.name)] = content.content
        patch = shown_patch(result)
        if patch is not None:
            found.setdefault(PATCH, patch.encode("utf-8", "replace"))
        if found:
            slug = re.sub(r"[^A-Za-z0-9._-]+", "-", result.question_id).strip("-.")[:_LONGEST]
            place = folder / f"{number}-{slug}"
            place.mkdir()
            for name, data in found.items():
                (place / name).write_bytes(data)
            count += len(found)
    return count
