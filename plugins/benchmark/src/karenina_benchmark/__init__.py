"""Benchmarks: questions with their templates and rubrics, the files that hold them, and sources of configuration.

Importing this package loads nothing else; the public names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_benchmark.benchmark import Benchmark
    from karenina_benchmark.content import BenchmarkContent
    from karenina_benchmark.errors import CheckpointError

_HOMES = {"Benchmark": "benchmark", "BenchmarkContent": "content", "CheckpointError": "errors"}

__all__ = ["Benchmark", "BenchmarkContent", "CheckpointError"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
