"""Benchmarks with functions that no file can contain: they work in this process, and are not saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from karenina_benchmark import Benchmark
from karenina_benchmark.errors import BenchmarkFileError
from karenina_core.data.rubrics import CallableRubricTrait, DynamicRubric, Rubric

WORDS = ["doi:", "pmid:"]


def with_a_name_around_it() -> Callable[[str], bool]:
    def cites(text: str) -> bool:
        return any(word in text for word in WORDS)

    return cites


@pytest.mark.parametrize("of", ["all", "dynamic", "question"])
@pytest.mark.parametrize("suffix", [".yaml", ".jsonld", ".jsonl"])
def test_only_saving_refuses_a_function_that_does_not_stand_alone(of: str, suffix: str, tmp_path: Path) -> None:
    trait = CallableRubricTrait.from_callable("cites", with_a_name_around_it())
    benchmark = Benchmark.create(name="b")
    benchmark.add_question("Q?", question_id="q", rubric=[trait] if of == "question" else None)
    if of == "all":
        benchmark.global_rubric = Rubric.of(trait)
    if of == "dynamic":
        benchmark.dynamic_rubric = DynamicRubric.of(trait.model_copy(update={"summary": "sources"}))

    with pytest.raises(BenchmarkFileError, match="'cites' cannot be imported, and its source uses WORDS") as caught:
        benchmark.save(tmp_path / f"b{suffix}")

    assert caught.value.cure.startswith("import or define everything it uses inside the function")
    assert caught.value.where == ("question q" if of == "question" else "")
    assert not list(tmp_path.iterdir())


def test_a_lambda_is_not_saved(tmp_path: Path) -> None:
    benchmark = Benchmark.create(name="b")
    benchmark.global_rubric = Rubric.of(CallableRubricTrait.from_callable("cites", lambda text: "doi:" in text))

    with pytest.raises(BenchmarkFileError, match="define it with `def` in a module"):
        benchmark.save(tmp_path / "b.yaml")
