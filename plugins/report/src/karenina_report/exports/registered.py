"""The installed exporters, and the choice of one by name or suffix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from karenina_core.catalog import official_first
from karenina_core.config.setting_owners import not_loaded
from karenina_core.errors import ConfigError
from karenina_core.text import did_you_mean
from karenina_report.exports.exporter import karenina_exporters

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.plugins import Offer, Plugins
    from karenina_report.exports.exporter import Exporter


def built_in() -> Sequence[Exporter]:
    """Return the exporters of this distribution."""
    from karenina_report.exports.json_lines import JSON, JSONL, RECORDING
    from karenina_report.exports.junit import JUNIT
    from karenina_report.exports.markdown import MARKDOWN
    from karenina_report.exports.spreadsheets import CSV, EXCEL, PARQUET

    return (JSONL, JSON, CSV, EXCEL, PARQUET, JUNIT, MARKDOWN, RECORDING)


def choose(plugins: Plugins, name: str | None, output: Path | None) -> Exporter:
    """Return the exporter called `name`, or else the one with the suffix of `output`.

    Without a name and a suffix, it is JSON lines. Raises `ConfigError` if no exporter fits, or several do.
    """
    offered = plugins.offers(karenina_exporters)
    if name is not None:
        found = [one for one in offered if one.value.name == name]
        names = [one.value.name for one in offered]
        missing = f"there is no export format {name!r}{did_you_mean(name, names)} All formats: {', '.join(names)}"
    elif output is None or not output.suffix:
        return choose(plugins, "jsonl", None)
    else:
        found = _with_suffix_of(output, offered)
        missing = (
            f"the format of {output} is not known: end its name with {_suffixes(offered)}, or choose one with --format"
        )
    if not found:
        raise ConfigError([missing + not_loaded(plugins)])
    found.sort(key=lambda one: official_first(one.distribution))
    if len(found) > 1:
        both = " and ".join(f"{one.distribution} {one.version}" for one in found)
        raise ConfigError(
            [
                f"two plugins offer the export format {found[0].value.name!r}: {both}; block one of them: "
                f'[plugins] block = ["{found[-1].distribution}"]'
            ]
        )
    return found[0].value


def can_read(plugins: Plugins, path: Path) -> bool:
    """Return whether the path has the suffix of a format that can be read back."""
    offered = plugins.offers(karenina_exporters)
    return bool(_with_suffix_of(path, [one for one in offered if one.value.read is not None]))


def _with_suffix_of(path: Path, offered: Sequence[Offer[Exporter]]) -> list[Offer[Exporter]]:
    """Return the formats for the longest suffix of the name: `.csv.gz` before `.gz`."""
    name = path.name.lower()
    found = [(len(suffix), one) for one in offered for suffix in one.value.suffixes if name.endswith(suffix)]
    return [one for length, one in found if length == max(length for length, _ in found)]


def read_export(plugins: Plugins, path: Path) -> Iterable[VerificationResult]:
    """Read the results back from a file that an exporter wrote. Raises `ConfigError` if no format can read it."""
    found = choose(plugins, None, path)
    if found.read is None:
        raise ConfigError([f"results cannot be read from {path}: the format {found.name} does not hold whole results"])
    return found.read(path)


def _suffixes(offered: Iterable[Offer[Exporter]]) -> str:
    return ", ".join(suffix for one in offered for suffix in one.value.suffixes)
