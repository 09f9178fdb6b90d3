"""Benchmarks, their files, and the configuration of runs.

Importing this package loads nothing else, because public names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_toolkit.lazy_names import lazy_names

if TYPE_CHECKING:
    from karenina_benchmark.benchmark import Benchmark
    from karenina_benchmark.content import BenchmarkContent
    from karenina_benchmark.errors import BenchmarkFileError

__all__ = ["Benchmark", "BenchmarkContent", "BenchmarkFileError"]


__getattr__ = lazy_names(
    __name__,
    {"Benchmark": ".benchmark", "BenchmarkContent": ".content", "BenchmarkFileError": ".errors"},
)
