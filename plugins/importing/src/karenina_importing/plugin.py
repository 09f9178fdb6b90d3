"""The plugin that adds `karenina import` and the formats of other tools; the entry point is `plugin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer

    from karenina_benchmark.formats.format import Format


class plugin:  # noqa: N801 - the entry point's name
    """Adds the command `karenina import` and the formats that it reads."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the command `import`, whose module is imported only when it is called."""
        from karenina_terminal.lazy_commands import add_lazy_command

        add_lazy_command(
            app,
            "import",
            "karenina_importing.import_command:app",
            "Convert another tool's questions and answers to a benchmark and recordings. "
            "Nothing in the source is executed.",
        )

    @staticmethod
    @hookimpl
    def karenina_formats() -> Sequence[Format]:
        """Return the formats of other tools; their modules are imported only now."""
        from karenina_importing.formats.deepeval import DEEPEVAL
        from karenina_importing.formats.helm import HELM
        from karenina_importing.formats.inspect_logs import INSPECT
        from karenina_importing.formats.langfuse import LANGFUSE
        from karenina_importing.formats.langsmith import LANGSMITH
        from karenina_importing.formats.lm_eval import LM_EVAL
        from karenina_importing.formats.lm_eval_tasks import LM_EVAL_TASK
        from karenina_importing.formats.openai_evals import EVALS_REGISTRY, OPENAI_EVALS
        from karenina_importing.formats.promptfoo.results import PROMPTFOO
        from karenina_importing.formats.pydantic_evals import PYDANTIC_EVALS
        from karenina_importing.formats.tables import HUGGINGFACE

        return (
            HUGGINGFACE,
            LM_EVAL,
            LM_EVAL_TASK,
            INSPECT,
            OPENAI_EVALS,
            EVALS_REGISTRY,
            PROMPTFOO,
            DEEPEVAL,
            PYDANTIC_EVALS,
            LANGSMITH,
            LANGFUSE,
            HELM,
        )
