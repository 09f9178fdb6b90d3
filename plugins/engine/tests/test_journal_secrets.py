"""Tests of what the command in a journal leaves out, and of restoring it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from karenina_core import VerificationConfig
from karenina_core.errors import ConfigError
from karenina_engine.journal.command import dump_config, restore_secrets

SECRET = "sk-very-secret"


def model(tools: list[Any]) -> dict[str, Any]:
    return {
        "id": "m",
        "interface": "openai",
        "model_name": "m",
        "endpoint_api_key": SECRET,
        "extra": {"body": {"tools": tools}},
    }


def dump(entry: dict[str, Any]) -> dict[str, Any]:
    return dump_config(VerificationConfig(answering_models=[entry]))


def test_values_in_lists_that_are_only_named_like_secrets_are_stored() -> None:
    arguments = {"properties": {"keyword": {"type": "string"}, "token": {"type": "string"}}}
    tools = [{"name": "token", "parameters": arguments}, {"name": "fetch", "max_tokens": 99}]
    stored = dump(model(tools))

    assert SECRET not in json.dumps(stored)
    (restored,) = restore_secrets(stored, {})["answering_models"]
    assert restored["extra"] == {"body": {"tools": tools}}


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "mcp", "authorization": SECRET},
        {"parameters": {"properties": {"token": {"type": "string", "default": SECRET}}}},
        {"parameters": {"properties": {"api_key": SECRET}}},
    ],
)
def test_secrets_in_lists_are_restored_from_the_configuration(tool: dict[str, Any]) -> None:
    entry = model([tool])
    stored = dump(entry)

    assert SECRET not in json.dumps(stored)
    assert restore_secrets(stored, {"answering_models": [entry]})["answering_models"] == [entry]
    with pytest.raises(ConfigError, match="extra of the model 'm' was not stored"):
        restore_secrets(stored, {})


def test_a_journal_with_secrets_in_lists_is_resumed() -> None:
    """Earlier versions stored them."""
    entry = model([{"type": "mcp", "authorization": SECRET}])
    stored = dump(entry)
    stored["answering_models"][0]["extra"] = entry["extra"]

    assert restore_secrets(stored, {"answering_models": [entry]})["answering_models"] == [entry]
    other = model([{"type": "mcp", "authorization": SECRET, "server": "x"}])
    with pytest.raises(ConfigError, match=r"has changed since the run \(extra\)"):
        restore_secrets(stored, {"answering_models": [other]})
