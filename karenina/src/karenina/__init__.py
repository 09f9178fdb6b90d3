"""Evaluate language models by parse, then verify: the names that users of Karenina write.

`karenina.templates` has what answer templates are made of, `karenina.rubrics` the kinds of traits. Importing this
package loads nothing else; a name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from karenina_core import __version__

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_benchmark.config_files import read_config, save_config
    from karenina_benchmark.evaluation import aevaluate, evaluate
    from karenina_core import ModelConfig, Outcome, Question, VerificationConfig, VerificationResult
    from karenina_engine.results.result_set import VerificationResultSet
    from karenina_report import compare

_HOMES = {
    "Benchmark": "karenina_benchmark",
    "ModelConfig": "karenina_core",
    "Outcome": "karenina_core",
    "Question": "karenina_core",
    "VerificationConfig": "karenina_core",
    "VerificationResult": "karenina_core",
    "VerificationResultSet": "karenina_engine.results.result_set",
    "aevaluate": "karenina_benchmark.evaluation",
    "compare": "karenina_report",
    "evaluate": "karenina_benchmark.evaluation",
    "read_config": "karenina_benchmark.config_files",
    "save_config": "karenina_benchmark.config_files",
}

__all__ = [
    "Benchmark",
    "ModelConfig",
    "Outcome",
    "Question",
    "VerificationConfig",
    "VerificationResult",
    "VerificationResultSet",
    "__version__",
    "aevaluate",
    "compare",
    "evaluate",
    "read_config",
    "save_config",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
