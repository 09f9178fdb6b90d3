"""Helpers for plugin authors, for running a stage or a whole run with scripted models."""

from karenina_testing.scripted_models import Request, ScriptedModels
from karenina_testing.stage_runner import StageRun, run_stage

__all__ = ["Request", "ScriptedModels", "StageRun", "run_stage"]
