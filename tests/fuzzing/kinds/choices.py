"""Options and values of `Choice`, with letters, joined options, refusals and LaTeX in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from hypothesis import strategies as st
from pydantic import ValidationError

from fuzzing.engine import Kind
from fuzzing.verdicts import joined, repeated
from karenina_template.templates import Choice, Undecided

Question: TypeAlias = tuple[list[str], str]
"""The texts of the options, and a value."""

_PIECES: Final = (
    *(
        "A",
        "B",
        "(",
        ")",
        "[",
        ".",
        ",",
        " and ",
        " or ",
        "/",
        "the answer is ",
        "it ",
        "not ",
        " but ",
        "rather than ",
    ),
    *("Lima", "Quito", "iron", "iron oxide", "A virus", "second", "#", "2", "\\boxed{", "\\text{", "}", "{", "**", "$"),
    *("\\", "<answer>", " is ", "because", "é", "\u0301", "\x00", "\n", "neither ", "I think "),
)
_TEXTS: Final = st.one_of(
    joined(_PIECES, 25),
    repeated(_PIECES, 100_000),
    st.text(max_size=100),
)


@contextmanager
def _opened(_folder: Path) -> Iterator[Callable[[Question], bool]]:
    def check(question: Question) -> bool:
        options, value = question
        try:
            rule = Choice(options=options)
        except ValidationError:
            return False
        try:
            rule.check_expected("A")
        except ValueError:
            return False
        verdict = rule.check_extracted(value, "A", value)
        assert isinstance(verdict, bool | Undecided), verdict
        return True

    yield check


KIND: Final = Kind(
    "choices",
    st.tuples(st.lists(_TEXTS, min_size=2, max_size=6), _TEXTS),
    _opened,
    valid=[(["Quito", "Lima"], "B. Lima")],
)
