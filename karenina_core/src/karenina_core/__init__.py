"""The core of Karenina: interfaces for stages and adapters, run planning, and the pipeline.

Importing this package loads no plugins and no heavy libraries. Public names are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_core.artifacts.artifact import ANY, ArtifactKey, Slot
    from karenina_core.artifacts.keys import ArtifactKeys
    from karenina_core.catalog import __version__
    from karenina_core.config.verification import VerificationConfig
    from karenina_core.data.outcome import Outcome
    from karenina_core.data.question import Question
    from karenina_core.data.result import VerificationResult
    from karenina_core.hooks import API_VERSION, hookimpl, hookspec
    from karenina_core.models.adapters import AdapterSpec, AgentTier
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentPort, LLMPort, Message, ParserPort, Usage
    from karenina_core.stages.context import VerificationContext
    from karenina_core.stages.stage import AutoFailStage, CheckStage, Detection, Skip, Stage

_MODULES = {
    "artifacts.artifact": ("ANY", "ArtifactKey", "Slot"),
    "artifacts.keys": ("ArtifactKeys",),
    "catalog": ("__version__",),
    "config.verification": ("VerificationConfig",),
    "data.outcome": ("Outcome",),
    "data.question": ("Question",),
    "data.result": ("VerificationResult",),
    "hooks": ("API_VERSION", "hookimpl", "hookspec"),
    "models.adapters": ("AdapterSpec", "AgentTier"),
    "models.model": ("ModelConfig",),
    "models.ports": ("AgentPort", "LLMPort", "Message", "ParserPort", "Usage"),
    "stages.context": ("VerificationContext",),
    "stages.stage": ("AutoFailStage", "CheckStage", "Detection", "Skip", "Stage"),
}

__all__ = [
    "ANY",
    "API_VERSION",
    "AdapterSpec",
    "AgentPort",
    "AgentTier",
    "ArtifactKey",
    "ArtifactKeys",
    "AutoFailStage",
    "CheckStage",
    "Detection",
    "LLMPort",
    "Message",
    "ModelConfig",
    "Outcome",
    "ParserPort",
    "Question",
    "Skip",
    "Slot",
    "Stage",
    "Usage",
    "VerificationConfig",
    "VerificationContext",
    "VerificationResult",
    "__version__",
    "hookimpl",
    "hookspec",
]


def __getattr__(name: str) -> object:
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
