"""Benchmarks as lines of JSON."""

from __future__ import annotations

from functools import partial
from typing import Final

from fuzzing.benchmarks import QUESTIONS, READABLE, read_operations
from fuzzing.engine import Kind
from fuzzing.mutation import documents, dump_lines, parse_tree

_HEAD = {key: value for key, value in READABLE[-1].items() if not key.startswith("questions")}
_FILES = [[_HEAD, *QUESTIONS], *([question] for question in QUESTIONS), [_HEAD, QUESTIONS[2]]]


_UNREAD = (b'"code": 5', b'"answer": {"text": "x"}', b'"@id": "y"', b'"properties": 1', b'"question": {"text": ""}')
_COMPARED = {"type": "ExactMatch", "normalize": [1] * 3000}
_MANY_COMPLAINTS: Final = dump_lines(
    parse_tree([{"question": "Which?", "answer": {"gene": {"ground_truth": "x", "verify_with": _COMPARED}}}])
).encode()
KIND: Final = Kind(
    "jsonl",
    documents(_FILES, dump_lines),
    partial(read_operations, ending=".jsonl"),
    valid=[dump_lines(parse_tree(one)).encode() for one in _FILES],
    regressions=[
        _MANY_COMPLAINTS,
        *(b'{"question": "Which?", "unread": {%s}}' % unread for unread in _UNREAD),
        b"{" + b", ".join(b'"k%d": 1' % number for number in range(80_000)) + b', "k79999": 2}',
    ],
    servers=True,
    seconds=4.0,
)
