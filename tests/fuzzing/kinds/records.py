"""Files of records of every kind, as `karenina_toolkit.files` reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow
import pyarrow.parquet
from hypothesis import strategies as st

from fuzzing.engine import Kind
from fuzzing.kinds.csv import write_csv
from fuzzing.mutation import documents, dump_json, dump_lines, insert_path, parse_tree
from fuzzing.tables import ROWS
from karenina_toolkit.files import FileError, read_json, read_records, suggest_rows

_QUESTIONS: Final[list[Any]] = [dict(zip(ROWS[0], row, strict=True)) for row in ROWS[1:]]
_NESTED: Final[list[Any]] = [
    {"version": 1, "data": [{"title": "t", "paragraphs": [{"context": "c", "qas": _QUESTIONS}]}]},
    {"q1": _QUESTIONS[0], "q2": _QUESTIONS[1]},
    {"examples": _QUESTIONS, "canary": "x"},
    _QUESTIONS,
]
_ENCODINGS: Final = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252", "utf-7", "shift_jis", "hex")
_MOST: Final = 1000


def _parquet() -> bytes:
    file = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(_QUESTIONS), file)
    data: bytes = file.getvalue().to_pybytes()
    return data


@contextmanager
def _opened(folder: Path) -> Iterator[Callable[[tuple[str, bytes, int]], bool]]:
    outside = str(folder.parent / "outside")

    def read(file: Path, **options: Any) -> bool:
        """Read the records twice, and whole or in part: what is read has a place, and is the same again."""
        try:
            with read_records(file, **options) as records:
                found = list(islice(records, _MOST))
            with read_records(file, max_bytes=10**8, **options) as records:
                again = list(islice(records, _MOST))
        except FileError as error:
            str(error).encode("utf-8")
            return False
        assert repr(again) == repr(found)
        for record in found:
            assert str(record).startswith(str(file))
            json.dumps(record.key)
            if record.problem is None and isinstance(record.value, dict):
                for name in (*record.value, *record.outer):
                    record.get(name)
        return True

    def check(one: tuple[str, bytes, int]) -> bool:
        suffix, data, number = one
        file = folder / f"rows{suffix}"
        file.write_bytes(insert_path(data, outside))
        options: list[dict[str, Any]] = [{}, {"encoding": _ENCODINGS[number % len(_ENCODINGS)]}]
        options.append({"keep_problems": True, "surrogates": True})
        if suffix == ".json":
            try:
                paths = suggest_rows(read_json(file))
            except FileError:
                paths = []
            options += [{"rows": path} for path in (*paths, "data.*.paragraphs.*.qas", "*.*", "examples", "q1")]
        return sum(read(file, **one) for one in options) > 0

    yield check


_SEEDS: Final = [
    (".csv", write_csv(parse_tree(ROWS)).encode(), 0),
    (".csv", write_csv(parse_tree(ROWS)).encode("utf-16"), 5),
    (".jsonl", dump_lines(parse_tree(_QUESTIONS)).encode(), 1),
    (".parquet", _parquet(), 2),
    *((".json", dump_json(parse_tree(one)).encode(), 3) for one in _NESTED),
]


def _broken(data: bytes) -> st.SearchStrategy[bytes]:
    """Return a strategy of files with some bytes replaced, and perhaps the end missing."""
    places = st.dictionaries(st.integers(0, len(data) - 1), st.integers(0, 255), max_size=6)

    def break_at(found: tuple[dict[int, int], int]) -> bytes:
        changed = bytearray(data)
        for place, byte in found[0].items():
            changed[place] = byte
        return bytes(changed[: found[1]])

    return st.tuples(places, st.integers(0, len(data)) | st.just(len(data))).map(break_at)


_NUMBERS: Final = st.integers(0, len(_ENCODINGS) - 1)
KIND: Final = Kind(
    "records",
    st.one_of(
        st.tuples(st.just(".csv"), documents([ROWS], write_csv), _NUMBERS),
        st.tuples(st.just(".jsonl"), documents([_QUESTIONS], dump_lines), _NUMBERS),
        st.tuples(st.just(".json"), documents(_NESTED, dump_json), _NUMBERS),
        *(st.tuples(st.just(suffix), _broken(data), _NUMBERS) for suffix, data, _ in _SEEDS),
    ),
    _opened,
    valid=_SEEDS,
    regressions=[
        (".csv", b"a" * 65_535 + b"\r\n1\r\n", 0),
        (".jsonl", b"\xff\xfe\x00\xd8", 0),
        (".json", b"[" * 100_000, 0),
        (".json", b'{"a":' * 150 + b"1" + b"}" * 150, 0),
    ],
    shown=lambda one: one[0].encode() + b"\n" + one[1],
)
