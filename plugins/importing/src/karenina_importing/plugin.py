"""The command `karenina import`, and the formats of other tools.

The entry point refers to `plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karenina_core.hooks import hookimpl
from karenina_terminal.command_hook import lazy_commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_importing.import_format import UnloadedFormat

FORMATS: Final[dict[str, tuple[str, ...]]] = {
    "huggingface": ("a table, or a Hugging Face dataset", "tables:HUGGINGFACE"),
    "lm-eval": ("lm-evaluation-harness samples", "lm_eval:LM_EVAL"),
    "lm-eval-task": ("an lm-evaluation-harness task", "lm_eval_tasks:LM_EVAL_TASK"),
    "inspect": ("an Inspect log or dataset", "inspect_logs:INSPECT", ".eval"),
    "openai-evals": ("an OpenAI Evals run or samples", "openai_evals:OPENAI_EVALS"),
    "openai-evals-registry": ("an eval in the OpenAI Evals registry", "openai_evals:EVALS_REGISTRY"),
    "promptfoo": ("promptfoo", "promptfoo.results:PROMPTFOO"),
    "deepeval": ("DeepEval goldens or a DeepEval test run, or ragas samples", "deepeval:DEEPEVAL"),
    "pydantic-evals": ("a pydantic-evals dataset or report", "pydantic_evals:PYDANTIC_EVALS"),
    "langsmith": ("LangSmith examples or runs", "langsmith:LANGSMITH"),
    "langfuse": ("Langfuse or Braintrust items or traces", "langfuse:LANGFUSE"),
    "swe-bench": ("SWE-bench tasks", "swe_bench:SWE_BENCH"),
    "helm": ("a HELM run or HELM instances", "helm:HELM"),
}
"""The formats by `--from` key, in the order of detection. Each consists of a name, an object and suffixes."""


class plugin:  # noqa: N801 - the entry point's name
    """Adds the command `karenina import` and the formats that it can read."""

    @staticmethod
    @hookimpl
    def karenina_formats() -> Sequence[UnloadedFormat]:
        """Return the formats of other tools' files that can be imported.

        The module of a format is only imported for files that may be in it.
        """
        from karenina_importing.import_format import list_unloaded

        return [
            list_unloaded(key, name, f"karenina_importing.formats.{target}", *suffixes)
            for key, (name, target, *suffixes) in FORMATS.items()
        ]

    karenina_commands = lazy_commands(
        {
            "import": (
                "karenina_importing.import_command:app",
                "Convert another tool's questions and answers to a benchmark and recordings. "
                "Nothing in the source is executed.",
            ),
        }
    )
