"""The formats of other tools that this distribution offers."""

from __future__ import annotations

from typing import Final

from karenina_importing.formats.inspect_logs import INSPECT
from karenina_importing.formats.lm_eval import LM_EVAL
from karenina_importing.formats.openai_evals import OPENAI_EVALS
from karenina_importing.formats.promptfoo import PROMPTFOO
from karenina_importing.formats.tables import HUGGINGFACE

FORMATS: Final = (HUGGINGFACE, LM_EVAL, INSPECT, OPENAI_EVALS, PROMPTFOO)
