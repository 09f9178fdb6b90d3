"""Split keywords that a file writes as one text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def split_keywords(values: Iterable[Any], separator: str | None = None) -> Iterator[Any]:
    """Yield the keywords of `values`, in which a text may hold several: "math,easy", "math; easy".

    Without `separator`, a text with semicolons is split at semicolons and any other text at commas. Values that are not
    texts are yielded unchanged.
    """
    for value in values:
        if not isinstance(value, str):
            yield value
            continue
        divider = separator or (";" if ";" in value else ",")
        yield from filter(None, map(str.strip, value.split(divider)))
