"""The first line of a result file, which names the distributions of the run. All other lines are results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

_BEGINNING: Final = b'{"run":'


def header_line(distributions: Mapping[str, str]) -> str:
    """Return the line that names the distributions of a run, each with its version."""
    return json.dumps({"run": {"distributions": dict(distributions)}}, separators=(",", ":"))


def is_header(line: bytes) -> bool:
    """Return whether a line of a result file is a header, or the beginning of a truncated one."""
    return line.startswith(_BEGINNING) or (bool(line) and _BEGINNING.startswith(line))
