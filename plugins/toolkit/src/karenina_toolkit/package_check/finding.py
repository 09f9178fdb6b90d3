"""What a check of an installation found, in one line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: `area` is what was checked, and `text` what was found, and how to fix it."""

    area: str
    state: State
    text: str

    def to_json(self) -> dict[str, str]:
        """Return the finding as JSON values."""
        return asdict(self)
