"""Tables and JSON of any names, as `karenina run`, `check` and `draft` read them without a mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from fuzzing.engine import Kind
from fuzzing.kinds.csv import write_csv
from fuzzing.mutation import documents, dump_json, dump_lines, insert_path, parse_tree
from karenina import Benchmark
from karenina.templates import TemplateError
from karenina_benchmark.errors import BenchmarkFileError
from karenina_template.question_template import template_of

_ROWS: Final[list[Any]] = [
    {"Question": "Which gene is it?", "A": "BCL2", "B": "TP53", "Correct Answer": "A", "context": ["One.", "Two."]},
    {"Question": "Which does the passage name?", "A": "x", "B": "y", "Correct Answer": "B", "context": "['a', 'b']"},
]
_CHOICES: Final[list[Any]] = [
    {"input": "Which?", "options": "(A) x (B) y", "target": 1, "label": "correct", "response": "It is y."},
    {"input": "Which one?", "options": ["1. x", "2. y"], "target": "(a)", "label": "refusal", "response": None},
]
_FIELDS: Final[list[Any]] = [
    {"prompt": "Which?", "answer.gene": "BCL2", "description.gene": "The gene", "text": "&lt;"}
]
_NESTED: Final[list[Any]] = [
    {"version": 1, "data": [{"title": "t", "paragraphs": [{"context": "c", "qas": _ROWS}]}]},
    {"examples": _CHOICES, "canary": "x"},
    {"1": _ROWS[0], "2": _ROWS[1]},
    _FIELDS,
]


def _table(rows: list[Any]) -> list[list[Any]]:
    return [list(rows[0]), *([str(cell) for cell in row.values()] for row in rows)]


_TABLES: Final = [_table(_ROWS), _table(_CHOICES), _table(_FIELDS)]
_GIVEN: Final[tuple[dict[str, str] | None, ...]] = (
    None,
    {"choice_by": "number"},
    {"question": "{context}\\n\\n{Question}"},
    {"rows": "data.*.paragraphs.*.qas"},
    {"encoding": "cp1252"},
)


@contextmanager
def _opened(folder: Path) -> Iterator[Callable[[tuple[str, bytes, int]], bool]]:
    outside = str(folder.parent / "outside")

    def check(one: tuple[str, bytes, int]) -> bool:
        """Read the questions twice: they are the same, saved and read again too."""
        suffix, data, number = one
        file = folder / f"rows{suffix}"
        file.write_bytes(insert_path(data, outside))
        given = _GIVEN[number % len(_GIVEN)]
        try:
            benchmark = Benchmark.load(file, columns=given)
        except BenchmarkFileError as error:
            str(error).encode("utf-8")
            return False
        assert Benchmark.load(file, columns=given) == benchmark
        for question in benchmark:
            assert question.question.strip()
            with suppress(TemplateError):  # of a column of templates
                template_of(question)
        benchmark.check()
        saved = folder / "saved.yaml"
        benchmark.save(saved)
        assert [(one.id, one.question) for one in Benchmark.load(saved)] == [
            (one.id, one.question) for one in benchmark
        ]
        return True

    yield check


_NUMBERS: Final = st.integers(0, len(_GIVEN) - 1)
KIND: Final = Kind(
    "question_tables",
    st.one_of(
        st.tuples(st.just(".csv"), documents(_TABLES, write_csv), _NUMBERS),
        st.tuples(st.just(".jsonl"), documents([_ROWS, _CHOICES, _FIELDS], dump_lines), _NUMBERS),
        st.tuples(st.just(".json"), documents(_NESTED, dump_json), _NUMBERS),
    ),
    _opened,
    valid=[
        (".csv", write_csv(parse_tree(_TABLES[0])).encode(), 0),
        (".jsonl", dump_lines(parse_tree(_ROWS)).encode(), 0),
        *((".json", dump_json(parse_tree(one)).encode(), 0) for one in _NESTED[:2]),
    ],
    regressions=[
        (".csv", b",".join(b"c%d" % number for number in range(100_000)) + b",question,answer\n", 0),
        (".json", b'[{"question": "Which?", "context": ' + b"[" * 400 + b"]" * 400 + b"}]", 0),
        (".json", b'[{"question": "Which?", "answer": "\\ud800"}]', 0),
    ],
    shown=lambda one: one[0].encode() + b"\n" + one[1],
)
