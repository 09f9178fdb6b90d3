"""Values and ground truths for primitives that read a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import strategies as st

from karenina_template.templates import ReadingPrimitive, Undecided

Pair: TypeAlias = tuple[str, str]
"""A value and a ground truth."""


def pairs(texts: st.SearchStrategy[str], truths: Sequence[str]) -> st.SearchStrategy[Pair]:
    """Return a strategy for pairs whose ground truth is one of `truths` or any text."""
    return st.tuples(texts, st.one_of(st.sampled_from(truths), texts))


def joined(pieces: Sequence[str], most: int, separator: str = "") -> st.SearchStrategy[str]:
    """Return a strategy for texts of up to `most` pieces."""
    return st.lists(st.sampled_from(pieces), max_size=most).map(separator.join)


def repeated(pieces: Sequence[str], most: int) -> st.SearchStrategy[str]:
    """Return a strategy for one piece, repeated up to `most` times."""
    return st.tuples(st.sampled_from(pieces), st.integers(1, most)).map(lambda part: part[0] * part[1])


def comparing(
    rules: Sequence[ReadingPrimitive], first: Pair, *, equal_to_itself: bool = False
) -> Callable[[Path], AbstractContextManager[Callable[[Pair], bool]]]:
    """Return the `opened` of a kind that compares a pair by all `rules` that accept its ground truth.

    `first` is compared beforehand, because the first comparison imports modules and starts processes. With
    `equal_to_itself`, each accepted ground truth must be equal to itself.
    """

    @contextmanager
    def opened(_folder: Path) -> Iterator[Callable[[Pair], bool]]:
        rules[0].check(*first)
        yield lambda pair: sum(_compare(rule, pair, equal_to_itself) for rule in rules) > 0

    return opened


def _compare(rule: ReadingPrimitive, pair: Pair, equal_to_itself: bool) -> bool:
    """Compare a pair. Returns whether the ground truth is accepted."""
    value, truth = pair
    try:
        rule.check_expected(truth)
    except ValueError:
        return False
    verdict = rule.check_extracted(value, truth, value)
    assert isinstance(verdict, bool | Undecided), verdict
    assert not isinstance(verdict, Undecided) or "failed" not in verdict.why, verdict
    assert not equal_to_itself or rule.check(truth, truth) is True, truth
    return True


def is_worker(arguments: Any) -> bool:
    """Return whether a started program is a process for comparisons, which replaces one that reached a limit."""
    return "limits/worker.py" in str(arguments)
