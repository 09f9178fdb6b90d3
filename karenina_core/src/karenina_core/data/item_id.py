"""`ItemId`: the key of an item in its run."""

from __future__ import annotations

from typing import NamedTuple, Self


class ItemId(NamedTuple):
    """The ids of an item's question, answering model and judge, and its replicate. `of` writes it."""

    question: str
    answering: str
    judge: str
    replicate: int

    @classmethod
    def of(cls, question: str, answering: str, judge: str | None, replicate: int | None) -> Self:
        """Return the key of an item: without a judge the answering model takes its place, and replicates begin at 1."""
        return cls(question, answering, judge or answering, replicate or 1)
