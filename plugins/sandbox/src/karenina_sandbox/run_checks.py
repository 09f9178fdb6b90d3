"""RunChecks: runs the checks of a question on what an agent left, and offers what they found to templates.

The stage imports `question_checks`, which runs the checks, only for questions that have some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from karenina_core import Question, Skip, Slot, Stage, VerificationConfig
from karenina_core.errors import ConfigError
from karenina_core.models.ports import SourceFolder
from karenina_core.stages.stage import ServiceNeed
from karenina_sandbox.fields import VALUES, VALUES_OF_REPORTS, CheckFields
from karenina_sandbox.patch import WORKSPACE_PATCH
from karenina_sandbox.prepare_sandbox import OF_WORKSPACES
from karenina_sandbox.settings import SandboxSettings, sandbox_problem
from karenina_template.templates.bound_template import ANSWER_CLASS
from karenina_toolkit.agent_work import LEFT_FILES
from karenina_toolkit.plugin_lookup import plugins_of

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_core.data.trust import Trust


class RunChecks(Stage):
    """Runs the checks of a question, and offers what they found as the known values `checks.NAME.*`.

    Each check also runs on the untouched folder, once for all answers of a run. If it cannot be started there, a test
    of `passing_before` does not pass, or there is a report neither there nor with the answer, the environment is
    broken: the item ends with STAGE_ERROR and is not judged, and a resumed run tries again. So it does if the sandbox
    itself fails.
    """

    name = "RunChecks"
    scope = "answer"
    requires = frozenset({WORKSPACE_PATCH, LEFT_FILES})
    optional = frozenset({ANSWER_CLASS})
    after = frozenset({Slot.GENERATE_ANSWER})
    offers = MappingProxyType({f"checks.*.{name}": kind for name, kind in {**VALUES, **VALUES_OF_REPORTS}.items()})
    settings = SandboxSettings
    question_settings = CheckFields
    reads: ClassVar[Mapping[str, object]] = OF_WORKSPACES

    def __init__(self) -> None:
        self._broken: dict[str, str] = {}
        """What this run found to be broken, by the key of the check, which is not run again for every answer."""

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Include the stage for questions with checks."""
        return bool(question.extra.get("checks")) or Skip("the question has no checks")

    def source_folders(self, config: VerificationConfig, question: Question) -> Sequence[SourceFolder]:
        """Return the question's folder and those that its checks add, or nothing if one cannot be found."""
        from karenina_sandbox.question_checks import checked_folders

        return checked_folders(config, question)

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ServiceNeed]:
        """Raise `ConfigError` for questions whose checks cannot run. Return a need if no sandbox is chosen.

        The folders must exist, and the fields must name checks.
        """
        from karenina_sandbox.question_checks import find_problems

        self._broken.clear()
        problems = find_problems(config, questions)
        if problems:
            raise ConfigError(problems)
        if not questions or config.section(SandboxSettings).sandbox is not None:
            return []  # PrepareSandbox checks the chosen sandbox
        problem = sandbox_problem(config, plugins_of(config))
        return [] if problem is None else [ServiceNeed(f"questions with checks need a sandbox: {problem}")]

    async def execute(self, context: VerificationContext) -> None:
        """Run the checks, offer what they found as known values, and describe the checks in the result. If a check
        cannot run, the item ends with an error.
        """
        from karenina_sandbox.question_checks import run_checks

        await run_checks(context, self._broken)
