"""The registry of file formats: plugins offer formats, and the suffix of a file selects one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from karenina_benchmark.errors import BenchmarkFileError
from karenina_benchmark.formats.format import Format
from karenina_benchmark.formats.hookspecs import karenina_formats
from karenina_core.catalog import official_first
from karenina_core.config.setting_owners import not_loaded
from karenina_core.plugins import Offer

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.plugins import Plugins

OWNER: Final = "karenina-benchmark"
"""The distribution that offers the built-in formats."""


def list_formats(plugins: Plugins) -> list[Offer[Format]]:
    """Return the formats of all plugins. The built-in ones are included even if `plugins` does not offer them."""
    from karenina_benchmark.formats.builtin_formats import FORMATS
    from karenina_core.version import __version__

    offered = plugins.offers(karenina_formats)
    present = [one.value for one in offered]
    return [*offered, *(Offer(one, OWNER, __version__, None) for one in FORMATS if one not in present)]


def suffix_of(plugins: Plugins, path: Path) -> str:
    """Return the longest suffix of a format that the name ends with (`.bench.json`), else the last part of the name."""
    name = path.name.lower()
    known = [suffix for one in list_formats(plugins) for suffix in one.value.suffixes]
    return max((one for one in known if name.endswith(one) and name != one), key=len, default=path.suffix.lower())


def find_format(plugins: Plugins, path: Path, suffix: str, *, writes: bool = False) -> Offer[Format]:
    """Return the format with this suffix; with `writes`, only formats that can be written count.

    Raises `BenchmarkFileError` about `path` if no format has the suffix, with a list of those that are known, or if two
    distributions offer one.
    """
    offered = [one for one in list_formats(plugins) if one.value.write is not None or not writes]
    found = [one for one in offered if suffix in one.value.suffixes]
    if len(found) == 1:
        return found[0]
    if found:
        found.sort(key=lambda one: official_first(one.distribution))
        names = " and ".join(f"{one.distribution} {one.version}" for one in found)
        raise BenchmarkFileError(
            path,
            "",
            f"two plugins offer a format with the suffix {suffix!r}: {names}",
            f'block one of them: [plugins] block = ["{found[-1].distribution}"]',
        )
    purpose = "saving" if writes else "loading"
    cure = f"use one of {describe_suffixes(offered)}{not_loaded(plugins)}"
    raise BenchmarkFileError(path, "", f"the file name ending {suffix!r} is not supported for {purpose}", cure)


def describe_suffixes(offered: Iterable[Offer[Format]]) -> str:
    """Return the suffixes and names of formats as a text for messages."""
    return "; ".join(f"{', '.join(one.value.suffixes)} ({one.value.name})" for one in offered if one.value.suffixes)
