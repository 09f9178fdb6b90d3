"""Plans of a run: asked once a question, kept by the set of stages, so that a run makes a handful."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.pipeline import Pipeline
from karenina_core.plan import Plan, PlanError, arrange
from karenina_core.selection import select

if TYPE_CHECKING:
    from karenina_core.benchmark import Question
    from karenina_core.config import VerificationConfig
    from karenina_core.plugins import Plugins


class Planner:
    """Makes the plan of each question of one configuration."""

    def __init__(self, config: VerificationConfig, plugins: Plugins) -> None:
        self._config = config
        self._plugins = plugins
        self._pipelines: dict[tuple[tuple[str, str], ...], Pipeline] = {}
        bad = [info for info in plugins.describe() if info.kind == "stage" and info.state not in ("loaded", "found")]
        self._failures = {info.name: info.failure or "unknown" for info in bad}
        self._conflicts = [info.failure or "unknown" for info in bad if info.state == "conflict"]

    def plan(self, question: Question) -> Plan:
        """The plan of `question`. Raises `PlanError`."""
        return self.pipeline(question).plan

    def pipeline(self, question: Question) -> Pipeline:
        """The pipeline of `question`, shared by all questions with the same stages. Raises `PlanError`."""
        selection = select(self._plugins.stages(), self._config, question, self._failures, self._conflicts)
        if selection.problems:
            raise PlanError(selection.problems)
        key = tuple(sorted((one.stage.name, one.distribution) for one in selection.stages))
        if key not in self._pipelines:
            self._pipelines[key] = Pipeline(arrange(selection.stages, selection.left_out), self._plugins)
        return self._pipelines[key]
