"""Regular expressions that are compiled on first use.

Compiling one takes up to five milliseconds, and most commands import far more patterns than they use.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile the pattern and return the given attribute. It is stored in this object for later accesses."""
        value = getattr(re.compile(self.pattern, self._flags), name)  # `re` keeps what it has compiled
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return an object with the methods of `re.compile(pattern, flags)`. It cannot be passed to functions of `re`."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))
