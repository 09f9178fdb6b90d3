"""Benchmarks: questions with their templates and rubrics, and the files that hold them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_core.benchmark.benchmark import Benchmark
    from karenina_core.benchmark.errors import CheckpointError
    from karenina_core.benchmark.question import Question

__all__ = ["Benchmark", "CheckpointError", "Question"]

_MODULES = {"Benchmark": "benchmark", "CheckpointError": "errors", "Question": "question"}


def __getattr__(name: str) -> object:
    """Import a public name when it is used first: the modules of hooks here are imported by every command."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
