"""Saved configurations contain no secrets, and no mask in place of a secret."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from karenina_benchmark.config.config_files import read_config, save_config
from karenina_core import VerificationConfig
from karenina_core.errors import ConfigError

MODEL = {"id": "a", "interface": "openai", "model_name": "m"}
SECRET = "sk-very-secret"
SECRETS = {
    "endpoint_api_key": SECRET,
    "mcp_urls_dict": {"t": f"http://127.0.0.1:1/{SECRET}"},
    "extra": {
        "headers": {"Authorization": SECRET},
        "body": {"api_key": SECRET, "tools": [{"type": "mcp", "token": SECRET}]},
    },
}


def test_a_saved_configuration_is_read_again(tmp_path: Path) -> None:
    config = VerificationConfig(answering_models=[{**MODEL, "temperature": 0.5}], replicate_count=3)
    save_config(config, tmp_path / "c.json")
    assert read_config(tmp_path / "c.json").given() == config.given()


def test_secrets_are_left_out_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = VerificationConfig(answering_models=[{**MODEL, **SECRETS}])
    with caplog.at_level(logging.WARNING):
        save_config(config, tmp_path / "c.json")
    text = (tmp_path / "c.json").read_text("utf-8")
    assert SECRET not in text
    assert json.loads(text)["answering_models"] == [{**MODEL, "extra": {"body": {"tools": [{"type": "mcp"}]}}}]
    (warning,) = caplog.messages
    names = ("endpoint_api_key", "mcp_urls_dict", "extra.headers", "extra.body.api_key", "extra.body.tools.0.token")
    for place in names:
        assert f"answering_models.a.{place}" in warning
    assert SECRET not in warning


def test_values_that_are_only_named_like_secrets_are_saved(tmp_path: Path) -> None:
    arguments = {"properties": {"token": {"type": "string"}}, "required": ["token"]}
    tools = [{"type": "function", "name": "token", "parameters": arguments}, {"type": "fetch", "max_tokens": 99}]
    model = {**MODEL, "extra": {"media_tokens": 500, "body": {"tools": tools, "stop": ["key: 1"]}}}
    save_config(VerificationConfig(answering_models=[model]), tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text("utf-8"))["answering_models"] == [model]


def test_the_default_of_an_argument_may_be_a_secret(tmp_path: Path) -> None:
    arguments = {"properties": {"token": {"type": "string", "default": SECRET}}}
    model = {**MODEL, "extra": {"body": {"tools": [{"name": "search", "parameters": arguments}]}}}
    save_config(VerificationConfig(answering_models=[model]), tmp_path / "c.json")
    assert SECRET not in (tmp_path / "c.json").read_text("utf-8")


def test_a_dump_with_masked_secrets_is_refused() -> None:
    dumped = json.loads(VerificationConfig(answering_models=[{**MODEL, "endpoint_api_key": SECRET}]).model_dump_json())
    with pytest.raises(ConfigError, match=r"endpoint_api_key: it is a masked secret .* remove it"):
        VerificationConfig(**{name: value for name, value in dumped.items() if value is not None})


@pytest.mark.parametrize(
    ("extra", "place"),
    [
        ({"headers": {"Authorization": "Bearer **********"}}, "headers.Authorization"),
        ({"body": {"keys": ["x", "**********"]}}, "body.keys.1"),
    ],
)
def test_a_refused_mask_is_named(extra: dict[str, object], place: str) -> None:
    with pytest.raises(ConfigError, match=f"extra: {place} is a masked secret"):
        VerificationConfig(answering_models=[{**MODEL, "extra": extra}])


@pytest.mark.parametrize("name", ["c.toml", "c.yaml", "c"])
def test_configurations_are_saved_as_json_only(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"saved only as JSON; name the file c\.json"):
        save_config(VerificationConfig(), tmp_path / name)


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot save the configuration in"):
        save_config(VerificationConfig(), tmp_path / "nowhere" / "c.json")


def test_a_preset_of_the_reference_is_a_configuration(tmp_path: Path) -> None:
    config = {"replicate_count": 3, "async_max_workers": 2, "prompt_config": None, "parsing_models": []}
    preset = {"id": "5f0c", "name": "Quick", "description": None, "config": config, "_comment": "as saved"}
    file = tmp_path / "quick.json"
    file.write_text(json.dumps({**preset, "created_at": "2026-01-15", "updated_at": "2026-01-15"}), "utf-8")

    assert read_config(file).given() == {"parsing_models": (), "replicate_count": 3}
