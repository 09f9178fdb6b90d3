"""The question columns and trait scales of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from karenina_core.text import compose
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_core.data.question import Question
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.rubrics import Rubric


@dataclass(frozen=True, slots=True)
class BenchmarkQuestions:
    """A benchmark's question columns and trait scales.

    `columns` maps each column to its values by question id, normalized to NFC. `scales` maps each trait to its lowest
    and highest score.
    """

    columns: Mapping[str, Mapping[str, tuple[str, ...]]]
    scales: Mapping[str, tuple[float, float]]


def load_benchmark(
    benchmark: str | Path | Benchmark, *, columns: Mapping[str, str] | None = None, skip_broken: bool = False
) -> Benchmark:
    """Return `benchmark`, or load it with `Benchmark.load` if it is a path. `columns` and `skip_broken` only apply to a
    path. Raises `BenchmarkFileError` if the file cannot be read.
    """
    if not isinstance(benchmark, str | Path):
        return benchmark
    from karenina_benchmark import Benchmark as Loaded

    return Loaded.load(benchmark, columns=columns, skip_broken=skip_broken)


def find_absent(benchmark: Benchmark, results: Iterable[VerificationResult]) -> list[str]:
    """Return a list with one warning if results belong to questions that are not in the benchmark, or an empty list."""
    absent = {compose(result.question_id) for result in results} - set(map(compose, benchmark.ids))
    if not absent:
        return []
    are = "is" if len(absent) == 1 else "are"
    return [
        f"{quantity(len(absent), 'question')} in the results {are} not in the benchmark; the run may have read a "
        "table with different options (--sheet, --rows, --columns)"
    ]


def read_benchmark_questions(benchmark: str | Path | Benchmark) -> BenchmarkQuestions:
    """Return the values of metadata columns by question, and the score ranges of traits by name, from a benchmark.
    Raises `BenchmarkFileError` if `benchmark` is a path that cannot be read.
    """
    benchmark = load_benchmark(benchmark)
    columns: dict[str, dict[str, tuple[str, ...]]] = {}
    scales = dict(_scales(benchmark.global_rubric, benchmark.dynamic_rubric))
    for question in benchmark:
        for name, values in _values(question):
            columns.setdefault(name, {})[compose(question.id)] = values
        scales |= _scales(question.rubric, question.dynamic_rubric)
    return BenchmarkQuestions(columns, scales)


def _values(question: Question) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name of each column of a question (author, sources, keyword, metadata) and its values as strings.
    Absent and nested values are skipped.
    """
    values = {"author": question.author, "sources": question.sources, **question.metadata}
    if question.keywords:
        values["keyword"] = [*map(compose, question.keywords)]
    for name, value in values.items():
        if value is None or isinstance(value, dict):
            continue
        several = value if isinstance(value, list) else [value]
        yield name, tuple(str(entry) for entry in several if entry is not None and not isinstance(entry, dict | list))


def _scales(*rubrics: Rubric | None) -> Iterable[tuple[str, tuple[float, float]]]:
    """Yield the name of each score or literal trait with a pair of its lowest and highest score. Other traits, and
    those without both scores, are skipped.
    """
    from karenina_core.data.rubrics.base import ScaledTrait  # imported here because it takes long

    for rubric in rubrics:
        for trait in rubric.traits if rubric is not None else ():
            if isinstance(trait, ScaledTrait) and trait.kind in ("score", "literal"):
                low, high = trait.min_score, trait.max_score
                if low is not None and high is not None and low < high:
                    yield trait.name, (low, high)
