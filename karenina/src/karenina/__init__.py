"""The public names of Karenina, which evaluates language models by parsing answers and verifying them.

`karenina.templates` contains everything for answer templates, and `karenina.rubrics` everything for rubric traits.
Names are loaded on first use to keep the package fast to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from karenina_core import __version__

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_benchmark.config.config_files import read_config, save_config
    from karenina_benchmark.evaluation import aevaluate, evaluate
    from karenina_calibration import calibrate
    from karenina_core import ModelConfig, Outcome, Question, VerificationConfig, VerificationResult
    from karenina_engine.results.result_set import VerificationResultSet
    from karenina_report import compare, write_report

_MODULES = {
    "Benchmark": "karenina_benchmark",
    "ModelConfig": "karenina_core",
    "Outcome": "karenina_core",
    "Question": "karenina_core",
    "VerificationConfig": "karenina_core",
    "VerificationResult": "karenina_core",
    "VerificationResultSet": "karenina_engine.results.result_set",
    "aevaluate": "karenina_benchmark.evaluation",
    "calibrate": "karenina_calibration",
    "compare": "karenina_report",
    "evaluate": "karenina_benchmark.evaluation",
    "read_config": "karenina_benchmark.config.config_files",
    "save_config": "karenina_benchmark.config.config_files",
    "write_report": "karenina_report",
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
    "calibrate",
    "compare",
    "evaluate",
    "read_config",
    "save_config",
    "write_report",
]


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
