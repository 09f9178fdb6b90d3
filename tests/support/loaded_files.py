"""Benchmarks that are loaded from a file with a given text."""

from __future__ import annotations

from pathlib import Path

from karenina_benchmark import Benchmark


def load(folder: Path, name: str, text: str) -> Benchmark:
    """Write a file and return the benchmark in it."""
    (folder / name).write_text(text, "utf-8")
    return Benchmark.load(folder / name)


def template_of(benchmark: Benchmark) -> str:
    """Return the source of the first question's template, or an empty string if it has none."""
    return next(iter(benchmark)).answer_template or ""
