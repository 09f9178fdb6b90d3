"""Benchmarks: questions with their templates and rubrics, and the files that hold them."""

from karenina_core.benchmark.benchmark import Benchmark
from karenina_core.benchmark.errors import CheckpointError
from karenina_core.benchmark.question import Question

__all__ = ["Benchmark", "CheckpointError", "Question"]
