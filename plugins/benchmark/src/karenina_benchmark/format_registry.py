"""Formats: kinds of files that hold benchmarks. Plugins offer them; the suffix of a file chooses one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from karenina_benchmark.errors import CheckpointError
from karenina_benchmark.format import Format
from karenina_benchmark.hookspecs import karenina_formats
from karenina_core.plugins import Offer

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.plugins import Plugins

OWNER: Final = "karenina-benchmark"
"""The distribution of the built-in formats."""


def list_formats(plugins: Plugins) -> list[Offer[Format]]:
    """Return the formats that are offered. The built-in ones are also there if `plugins` was made by hand."""
    from karenina_benchmark.builtin_formats import FORMATS
    from karenina_core.version import __version__

    offered = plugins.offers(karenina_formats)
    there = [one.value for one in offered]
    return [*offered, *(Offer(one, OWNER, __version__, None) for one in FORMATS if one not in there)]


def find_format(plugins: Plugins, path: Path, suffix: str, *, writes: bool = False) -> Offer[Format]:
    """Return the format with that suffix. `writes` leaves out formats that can only be read.

    Raises `CheckpointError` about `path` if there is none, with the suffixes that there are, and if two distributions
    offer one.
    """
    offered = [one for one in list_formats(plugins) if one.value.write is not None or not writes]
    found = [one for one in offered if suffix in one.value.suffixes]
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(f"{one.distribution} {one.version}" for one in found)
        raise CheckpointError(
            path,
            "",
            f"two plugins offer a format with the suffix {suffix!r}: {names}",
            f'block one of them: [plugins] block = ["{found[-1].distribution}"]',
        )
    which = "to write" if writes else "it has"
    cure = f"use one of {describe_suffixes(offered)}"
    raise CheckpointError(path, "", f"the ending {suffix!r} does not say which form {which}", cure)


def describe_suffixes(offered: Iterable[Offer[Format]]) -> str:
    """Return the suffixes of formats, for messages."""
    return "; ".join(f"{', '.join(one.value.suffixes)} ({one.value.name})" for one in offered)
