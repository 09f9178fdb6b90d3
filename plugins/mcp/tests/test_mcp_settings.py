"""Checks of a model's servers before anything is started."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_models import model, talking

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.model import ModelConfig
from karenina_mcp import MCPSource
from karenina_mcp.settings import Server, ServerOptions, read_servers

pytestmark = pytest.mark.alone

GOOD = {"talk": talking("echo")}
REMOTE = {"genes": "https://genes.example/mcp"}
BEARER = {"headers": {"Authorization": "Bearer ${GENES_TOKEN}"}}


def test_only_models_that_name_servers_want_tools() -> None:
    assert MCPSource().applies_to(model(GOOD))
    assert not MCPSource().applies_to(ModelConfig(id="m", interface="any", model_name="any"))


@pytest.mark.parametrize(
    ("servers", "fields"),
    [
        (GOOD, {}),
        (REMOTE, {}),
        (GOOD | REMOTE, {"mcp_tool_filter": ["echo"], "mcp_tool_description_overrides": {"echo": "Says it again."}}),
        (REMOTE, {"mcp_server_options": {"genes": {**BEARER, "prefix": "genes_", "call_timeout": 5}}}),
        (GOOD, {"mcp_server_options": {"talk": {"environment": ["GENES_TOKEN"]}}}),
        ({"genes": "https://genes.example/mcp?key=${GENES_TOKEN}"}, {}),
    ],
)
def test_what_is_well_formed_passes(
    servers: dict[str, str], fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENES_TOKEN", "s3cret")
    MCPSource().check(model(servers, **fields))


@pytest.mark.parametrize(
    ("servers", "fields", "problem"),
    [
        ({"a": ""}, {}, "'a': the value is empty; set it to a URL or a command line"),
        ({"a": "echo 'oh"}, {}, "'a': No closing quotation"),
        ({"a": "no-such-program --now"}, {}, "the program 'no-such-program' was not found; install the program"),
        ({"a": "ftp://genes.example"}, {}, "must begin with http:// or https://"),
        ({"a": "https:///mcp"}, {}, "contain a host"),
        ({"a": "https://me:pw@genes.example/mcp"}, {}, "use an Authorization header in mcp_server_options"),
        ({"a": "https://genes.example/${NOT_SET}"}, {}, "the environment variable NOT_SET is not set"),
        (REMOTE, {"mcp_server_options": {"genes": {"headers": {"A": "${NOT_SET}"}}}}, "variable NOT_SET is not set"),
        (REMOTE, {"mcp_server_options": {"genes": {"headers": {"A": "x\ny"}}}}, "the header 'A' contains a line break"),
        (REMOTE, {"mcp_server_options": {"genes": {"environment": ["HOME"]}}}, "use headers"),
        (GOOD, {"mcp_server_options": {"talk": {"headers": {"A": "b"}}}}, "use environment"),
        (GOOD, {"mcp_server_options": {"talk": {"environment": ["NOT_SET"]}}}, "variable NOT_SET is not set"),
        (GOOD, {"mcp_server_options": {"talc": {}}}, "no such server; did you mean 'talk'?"),
        (GOOD, {"mcp_server_options": {"talk": {"cal_timeout": 3}}}, "did you mean 'call_timeout'?"),
        (GOOD, {"mcp_server_options": {"talk": {"prefix": "a b"}}}, "mcp_server_options.talk.prefix"),
        (GOOD, {"mcp_server_options": {"talk": {"call_timeout": 0}}}, "mcp_server_options.talk.call_timeout"),
        (GOOD, {"mcp_tool_filter": []}, "mcp_tool_filter is empty"),
        (GOOD, {"mcp_tool_filter": ["echo", " "]}, "mcp_tool_filter contains an empty name"),
        (GOOD, {"mcp_tool_description_overrides": {"": "x"}}, "overrides contains an empty name"),
        (GOOD, {"mcp_tool_description_overrides": {"echo": " "}}, "the text for 'echo' is empty"),
    ],
)
def test_what_would_fail_every_item_is_refused(servers: dict[str, str], fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(AdapterConfigError, match=problem.replace("?", r"\?")):
        MCPSource().check(model(servers, **fields))


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(AdapterConfigError) as caught:
        MCPSource().check(model({"a": "", "b": "ftp://x"}, mcp_tool_filter=[]))
    assert len(str(caught.value).split("; ")) >= 3
    for part in ("'a'", "'b'", "mcp_tool_filter"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("server --api-key s3cret --fast", "server --api-key *** --fast".replace("***", "'***'")),
        ("server --token=s3cret", "server '--token=***'"),
        ("server API_SECRET=s3cret x", "server 'API_SECRET=***' x"),
        ("server --token '${TOKEN}'", "server --token '${TOKEN}'"),
        ("https://genes.example/mcp?apiKey=s3cret", "https://genes.example/mcp?***"),
    ],
)
def test_messages_show_no_secret_of_an_address(address: str, shown: str) -> None:
    assert str(Server("a", address, ServerOptions())) == f"the MCP server 'a' ({shown})"


def test_no_secret_of_the_options_is_shown() -> None:
    configured = model(REMOTE, mcp_server_options={"genes": {"headers": {"Authorization": "Bearer s3cret"}}})
    assert "s3cret" not in repr(configured)
    assert "s3cret" not in repr(read_servers(configured))
