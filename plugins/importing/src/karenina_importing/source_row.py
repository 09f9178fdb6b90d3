"""`SourceRow`: a row of a file of another tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row of a source: its place (such as `line 3`) and its values.

    `problem` says why a row could not be read; it has no values then.
    """

    place: str
    values: Mapping[str, Any]
    problem: str = ""
