"""Benchmarks as lines of JSON."""

from __future__ import annotations

from functools import partial
from typing import Final

from fuzzing.benchmarks import QUESTIONS, READABLE, reading
from fuzzing.engine import Kind
from fuzzing.mutation import as_lines, documents, tree_of

_HEAD = {key: value for key, value in READABLE[-1].items() if not key.startswith("questions")}
_FILES = [[_HEAD, *QUESTIONS], *([question] for question in QUESTIONS), [_HEAD, QUESTIONS[2]]]


KIND: Final = Kind(
    "jsonl",
    documents(_FILES, as_lines),
    partial(reading, ending=".jsonl"),
    valid=[as_lines(tree_of(one)).encode() for one in _FILES],
    regressions=[b"{" + b", ".join(b'"k%d": 1' % number for number in range(80_000)) + b', "k79999": 2}'],
    servers=True,
    seconds=4.0,
)
