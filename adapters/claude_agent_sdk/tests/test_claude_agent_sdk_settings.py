"""Settings, errors before a run, and the servers that get the key."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from karenina_claude_agent_sdk.settings import ClaudeAgentExtra, base_url_of, check, key_of, unavailable
from karenina_core.catalog import install_command
from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.model import ModelConfig

pytestmark = pytest.mark.alone


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def model(**fields: Any) -> ModelConfig:
    values = {"model_name": "claude-x", "endpoint_base_url": "http://127.0.0.1:9", **fields}
    return ModelConfig(id="m", interface="claude_agent_sdk", **values)


def test_an_agent_has_no_shell_unless_asked_for() -> None:
    assert "Bash" not in ClaudeAgentExtra().tools
    assert ClaudeAgentExtra(tools=("Bash",)).tools == ("Bash",)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"endpoint_base_url": "127.0.0.1"}, "did you mean"),
        ({"endpoint_base_url": "http://u:p@host"}, "user name or password"),
        ({"endpoint_base_url": "http://host/v1/messages"}, "the URL is that of a single API method; use the base URL"),
        ({"endpoint_base_url": "http://host/?a=b"}, "query"),
        ({"endpoint_base_url": None}, "needs an API key"),
        ({"endpoint_api_key": "two\nlines"}, "line break"),
        ({"temperature": 1.5}, "0 to 1"),
        ({"temperature": 0.5, "extra": {"thinking": "adaptive"}}, "no temperature with adaptive thinking"),
        ({"extra": {"cli_path": "/no/such/claude"}}, "/no/such/claude"),
        ({"extra": {"tools": ["Task"]}}, "extra.tools"),
        ({"extra": {"headers": {"X-Team": "a\nb"}}}, "line break"),
    ],
)
def test_what_would_fail_every_item_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(AdapterConfigError, match=says):
        check(model(**fields))


@pytest.mark.parametrize("url", ["http://host:1", "http://host:1/", "http://host:1/v1", "http://host:1/v1/"])
def test_a_base_url_may_end_as_it_likes(url: str) -> None:
    assert base_url_of(model(endpoint_base_url=url)) == "http://host:1"


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("https://api.anthropic.com", True),
        ("http://127.0.0.1:9", True),
        ("https://gateway.example", True),
        ("https://elsewhere.example", False),
        ("http://api.anthropic.com", False),
    ],
)
def test_the_environments_key_is_sent_only_to_trusted_servers(
    url: str, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-mine")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://gateway.example")
    assert key_of(model(endpoint_base_url=url)) == ("sk-mine" if trusted else None)
    assert key_of(model(endpoint_base_url=url, endpoint_api_key="sk-own")) == "sk-own"


def test_another_cli_is_taken_where_it_is_set(tmp_path: Path) -> None:
    cli = tmp_path / "claude"
    cli.write_text("#!/bin/sh\n")
    cli.chmod(0o755)
    check(model(extra={"cli_path": str(cli)}))


def test_a_missing_sdk_is_named_as_pip_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unavailable() is None
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)

    assert unavailable() == f"claude-agent-sdk is not installed: {install_command('karenina-claude-agent-sdk')}"
