"""The rehearsal of checks for `karenina check`.

It imports `rehearsed_checks` only for questions that have some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from karenina_core import Question, VerificationConfig
    from karenina_core.data.trust import Trust
    from karenina_sandbox.leaks import Message


class CheckRehearsal:
    """The rehearsal of questions with checks. No model is called, and nothing is stored."""

    def applies_to(self, question: Question) -> bool:
        """Return whether the question has checks."""
        return bool(question.extra.get("checks"))

    def inspect(
        self, config: VerificationConfig, questions: Collection[Question], trust: Trust
    ) -> Iterator[tuple[Message, str]]:
        """Yield what agents can see of hidden tests, solutions and ground truths. See `inspect_checks`."""
        from karenina_sandbox.rehearsed_checks import inspect_checks

        return inspect_checks(config, questions, trust)

    def unavailable(self, config: VerificationConfig) -> str | None:
        """Return why the workspace root or the sandbox cannot be used, or None."""
        from karenina_sandbox.rehearsed_checks import why_unavailable

        return why_unavailable(config)

    async def run(self, config: VerificationConfig, question: Question, trust: Trust) -> Sequence[Message]:
        """Run the checks on the untouched folder and with the solution. See `rehearse_checks`."""
        from karenina_sandbox.rehearsed_checks import rehearse_checks

        return await rehearse_checks(config, question, trust)


REHEARSAL: Final = CheckRehearsal()
