"""Judges that reply as a test wants, and the plugins of a self-test with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from karenina_core.models.ports import CallInfo, Message, ParserReply, Usage
from karenina_core.plugins import Plugins
from karenina_selftest.cases import Case, shipped_cases
from karenina_template.question_template import template_of
from karenina_testing import ScriptedModels

CASES = {case.id: case for case in shipped_cases()}


def truth_of(case: Case) -> Mapping[str, Any]:
    """Return the fields with which the case passes."""
    template = template_of(case.question)
    assert template is not None
    return template.for_question(case.question.id).expected()


def judge(fooled: Callable[[Case], bool]) -> ScriptedModels:
    """Return a judge that extracts the truth from honest answers, and from those by which it is fooled.

    Each of its calls uses 1,000 input and 100 output tokens.
    """

    def fill(_messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo) -> ParserReply:
        case = CASES[info.question_id]
        fields = truth_of(case) if case.passes or fooled(case) else dict.fromkeys(schema["properties"])
        return ParserReply(json.dumps(fields), "json_schema", Usage(input_tokens=1000, output_tokens=100, calls=1))

    return ScriptedModels(fill=fill)


def with_plugins(*models: ScriptedModels) -> Plugins:
    """Return all installed plugins, and these models."""
    plugins = Plugins.discover()
    for model in models:
        plugins.register(model)
    return plugins
