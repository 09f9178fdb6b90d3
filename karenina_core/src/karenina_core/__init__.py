"""Karenina's core: what a stage and an adapter are, and how the installed ones become a run.

Importing this package loads no plugin and no heavy library; the public names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from karenina_core.artifacts import ANY, ArtifactKey
    from karenina_core.benchmark import Benchmark, Question
    from karenina_core.config import VerificationConfig
    from karenina_core.context import VerificationContext
    from karenina_core.hookspecs import API_VERSION, hookimpl, hookspec
    from karenina_core.keys import ArtifactKeys
    from karenina_core.models import ModelConfig
    from karenina_core.results import Outcome, VerificationResult
    from karenina_core.results.result_set import VerificationResultSet
    from karenina_core.slots import Slot
    from karenina_core.stage import AutoFailStage, CheckStage, Detection, Skip, Stage

_HOMES = {
    "ANY": "artifacts",
    "API_VERSION": "hookspecs",
    "ArtifactKey": "artifacts",
    "ArtifactKeys": "keys",
    "AutoFailStage": "stage",
    "Benchmark": "benchmark",
    "CheckStage": "stage",
    "Detection": "stage",
    "ModelConfig": "models",
    "Outcome": "results",
    "Question": "benchmark",
    "Skip": "stage",
    "Slot": "slots",
    "Stage": "stage",
    "VerificationConfig": "config",
    "VerificationContext": "context",
    "VerificationResult": "results",
    "VerificationResultSet": "results.result_set",
    "hookimpl": "hookspecs",
    "hookspec": "hookspecs",
}

__all__ = [
    "ANY",
    "API_VERSION",
    "ArtifactKey",
    "ArtifactKeys",
    "AutoFailStage",
    "Benchmark",
    "CheckStage",
    "Detection",
    "ModelConfig",
    "Outcome",
    "Question",
    "Skip",
    "Slot",
    "Stage",
    "VerificationConfig",
    "VerificationContext",
    "VerificationResult",
    "VerificationResultSet",
    "__version__",
    "hookimpl",
    "hookspec",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
