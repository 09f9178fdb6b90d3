"""For authors of plugins: run one stage alone, or a whole run with models that say what the test tells them to."""

from karenina_testing.scripted import Request, ScriptedModels
from karenina_testing.stages import StageRun, run_stage

__all__ = ["Request", "ScriptedModels", "StageRun", "run_stage"]
