"""The values that a shell completes for `karenina label` and `calibrate`."""

from __future__ import annotations

from karenina_toolkit.completion import complete_files


def label_files(incomplete: str) -> list[str]:
    """Return files that could hold labels: sheets, and lines of JSON."""
    return complete_files(incomplete, (".jsonl", ".csv", ".xlsx"))
