"""The formats of other tools that this distribution offers."""

from __future__ import annotations

from typing import Final

from karenina_importing.formats.deepeval import DEEPEVAL
from karenina_importing.formats.evals_registry import EVALS_REGISTRY
from karenina_importing.formats.helm import HELM
from karenina_importing.formats.inspect_logs import INSPECT
from karenina_importing.formats.langfuse import LANGFUSE
from karenina_importing.formats.langsmith import LANGSMITH
from karenina_importing.formats.lm_eval import LM_EVAL
from karenina_importing.formats.lm_eval_tasks import LM_EVAL_TASK
from karenina_importing.formats.openai_evals import OPENAI_EVALS
from karenina_importing.formats.promptfoo.results import PROMPTFOO
from karenina_importing.formats.pydantic_evals import PYDANTIC_EVALS
from karenina_importing.formats.tables import HUGGINGFACE

FORMATS: Final = (
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
