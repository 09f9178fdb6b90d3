"""The check of a table of questions: it is imported, saved and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fuzzing.mutation import insert_path
from karenina import Benchmark
from karenina.templates import TemplateError
from karenina_benchmark.errors import BenchmarkFileError
from karenina_template.question_template import template_of

COLUMNS: Final = {"question": "text", "raw_answer": "gold", "id": "id", "keywords": "words", "metadata": ["page"]}
ANSWER: Final[dict[str, Any]] = {
    "gene": {"description": "The gene", "ground_truth": {"column": "gold"}},
    "page": {
        "description": "The page",
        "ground_truth": {"column": "page"},
        "type": "int",
        "verify_with": "NumericExact",
    },
}
ROWS: Final[list[list[Any]]] = [
    ["id", "text", "gold", "words", "page", "answer_template"],
    ["q1", "Which gene is it?", "BCL2", "a; b", 3, None],
    ["q2", "Which other, then?", "TP53", "", 4, "class Answer(BaseAnswer):\n    x: int"],
    ["q3", 'What is "quoted"?', "é, ü", "c", 5, None],
]
_OPTIONS: Final[tuple[dict[str, Any], ...]] = (
    {"columns": COLUMNS, "answer": ANSWER},
    {"columns": {"question": "text", "answer_template": "answer_template", "author": "words", "sources": "gold"}},
    {"columns": {"question": "text"}, "answer_template": "class Answer(BaseAnswer):\n    x: int"},
)


@contextmanager
def import_options(folder: Path, ending: str) -> Iterator[Callable[[bytes], bool]]:
    """Gives files with this ending to the import of questions, with columns that are mapped in several ways."""
    outside = str(folder.parent / "outside")
    file = folder / f"rows{ending}"

    def check(data: bytes) -> bool:
        file.write_bytes(insert_path(data, outside))
        accepted = [_import_table(file, options) for options in _OPTIONS]
        return any(accepted)

    yield check


def _import_table(file: Path, options: dict[str, Any]) -> bool:
    """Import the rows; what could be imported can be saved, and is then the same."""
    benchmark = Benchmark.create("rows")
    try:
        benchmark.import_questions(file, **options)
    except BenchmarkFileError as error:
        str(error).encode("utf-8")
        return False
    for question in benchmark:
        try:
            template_of(question)
        except TemplateError as error:
            str(error).encode("utf-8")
    for ending in (".jsonld", ".yaml"):
        again = file.with_name(f"again{ending}")
        benchmark.save(again)
        if Benchmark.load(again) != benchmark:
            raise AssertionError(f"rows saved as {ending} are other questions")
        again.unlink()
    return True
