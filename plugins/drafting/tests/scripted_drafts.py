"""Models that draft as a test scripts it, and the command with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from command_runs import CommandResult, run_karenina

from karenina_core.models.ports import CallInfo, Message, ParserReply, Usage
from karenina_core.plugins import Plugins
from karenina_drafting.proposal import Proposal
from karenina_testing import ScriptedModels

Script = Callable[[str, int], Mapping[str, Any] | str]
"""Returns the draft for a question's id, and the number of the try."""

GENE = {
    "name": "gene",
    "description": "The gene that the response names",
    "primitive": "ExactMatch",
    "ground_truth": ["BCL2"],
    "synonyms": ["B-cell lymphoma 2"],
}
YEAR = {
    "name": "year",
    "description": "The year of the approval that the response gives",
    "primitive": "NumericExact",
    "ground_truth": ["2016"],
}
CELSIUS = {
    "name": "celsius",
    "description": "The boiling point in degrees Celsius",
    "primitive": "NumericTolerance",
    "ground_truth": ["78.4"],
    "tolerance": 0.5,
}


def proposal(*fields: Mapping[str, Any]) -> Proposal:
    """Return a proposal with these fields."""
    return Proposal.model_validate({"fields": list(fields)})


def drafting_model(script: Script) -> ScriptedModels:
    """Return a model that drafts by the script; a call uses 30,000 input and 100 output tokens."""

    def fill(messages: Sequence[Message], _schema: Mapping[str, Any], info: CallInfo) -> ParserReply:
        reply = script(info.question_id, sum(message.role == "assistant" for message in messages) + 1)
        text = reply if isinstance(reply, str) else json.dumps(reply)
        return ParserReply(text, "json_schema", Usage(input_tokens=30_000, output_tokens=100, calls=1))

    return ScriptedModels(fill=fill)


def draft(models: ScriptedModels, *arguments: str | Path) -> CommandResult:
    """Run `karenina draft` with the model."""
    plugins = Plugins.discover()
    plugins.register(models)
    return run_karenina("draft", *arguments, "--model", "scripted:m", "--quiet", plugins=plugins)
