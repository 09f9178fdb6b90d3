"""The command of a run, as JSON values without secrets, and what it takes to give it again.

A journal keeps it as a label: it says what the results in the journal are of. The user's state folder
(`karenina_engine.journal.user_state`) keeps it for `karenina resume`, which takes it from there alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr, ValidationError
from pydantic_core import to_jsonable_python

from karenina_core.errors import ConfigError
from karenina_core.models.model import SECRECY, ModelConfig
from karenina_engine.calls.reply_json import dump_json_bytes
from karenina_engine.journal.fingerprint import digest_question
from karenina_toolkit.urls import MASK, redact_url

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_engine.journal.question_source import QuestionSource
    from karenina_engine.journal.request import RunRequest

LEFT_OUT: Final = "(left out of the journal: it is or may hold a secret)"
"""What stands for a secret of the command; `restore_secrets` takes the whole entry from the user's own file again."""

MODEL_ROLES: Final = ("answering_models", "parsing_models")
_URL: Final = "endpoint_base_url"
_SECRET_NAME: Final = re.compile(r"key|token|secret|password|authorization|credential", re.IGNORECASE)


def make_command(request: RunRequest) -> dict[str, Any]:
    """Return the command of a run, as JSON values without secrets: two that are equal ask for the same."""
    benchmark, config_file, output = request.benchmark, request.config_file, request.output
    chosen = list(request.question_ids) if request.question_ids is not None else None
    return {
        "folder": str(Path.cwd()),
        "benchmark": str(benchmark.path.absolute()) if benchmark.path is not None else None,
        "columns": dict(request.columns),
        "content": digest_content(benchmark),
        "config_file": str(config_file.absolute()) if config_file is not None else None,
        "config": _plain_config(request.config),
        "questions": None if chosen == list(benchmark.ids) else chosen,
        "output": str(output.absolute()) if output is not None else None,
        "trust_all": request.trusts_all,
        "trusted": digest_trusted_content(benchmark) if request.trusts_all else None,
        "benchmark_config": _digest(benchmark.run_config),
        "skip_broken": request.skip_broken,
    }


def is_same_run(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two commands ask for the same results: what is no part of the request may differ.

    That is settings on which no result depends, such as a budget, and the versions of what is installed.
    """
    return _asked(one) == _asked(other)


def _asked(command: Mapping[str, Any]) -> dict[str, Any]:
    from karenina_core.config import all_settings

    of_no_result = {name for name, setting in all_settings().items() if not setting.changes_results}
    config = command.get("config")
    asked = config if isinstance(config, Mapping) else {}
    kept = {name: value for name, value in command.items() if name != "distributions"}
    return {**kept, "config": {name: value for name, value in asked.items() if name not in of_no_result}}


def digest_content(benchmark: QuestionSource) -> str:
    """A digest of the benchmark's file, or of its questions where it has none."""
    if benchmark.path is not None and benchmark.path.is_file():
        with benchmark.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for question in benchmark:
        digest.update(digest_question(question))
    return digest.hexdigest()


def digest_trusted_content(benchmark: QuestionSource) -> str:
    """Return a digest of all that `--trust-all` lets take effect, as it was loaded."""
    digest = hashlib.sha256(_digest(benchmark.run_config).encode())
    for rubric in (benchmark.global_rubric, benchmark.dynamic_rubric):
        digest.update(dump_json_bytes(rubric.model_dump() if rubric is not None else None, str))
    for question in benchmark:
        digest.update(digest_question(question))
    return digest.hexdigest()


def has_same_benchmark_config(benchmark: QuestionSource, command: Mapping[str, Any]) -> bool:
    """Return whether the benchmark's own configuration is that which the command was given with."""
    return _digest(benchmark.run_config) == command.get("benchmark_config")


def _digest(value: Any) -> str:
    return hashlib.sha256(dump_json_bytes(to_jsonable_python(value, fallback=str), str)).hexdigest()


def restore_secrets(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of a stored configuration, with its secrets taken from `given`: the user's own files, now.

    A model is found there by its id. If it is the stored one, but for its secrets, the whole entry of the user's file
    is used; no secret of a file is ever put into an entry from elsewhere. A key that is in no file is left to the
    environment. Raises `ConfigError` if a secret belongs to an entry that has changed, or cannot be found.
    """
    values = dict(stored)
    for name in MODEL_ROLES:
        if name in values:
            now = {_field(model, "id"): model for model in given.get(name) or ()}
            values[name] = [_whole_model(model, now.get(model["id"])) for model in values[name]]
    for name, value in values.items():
        if value == LEFT_OUT:
            if name not in given:
                raise ConfigError([f"{name} is not stored, because it is a secret: set it in the environment"])
            values[name] = given[name]
    return values


def _plain_config(config: VerificationConfig) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in config.given().items():
        if name in MODEL_ROLES:
            values[name] = [_plain_model(model) for model in value]
        else:
            values[name] = LEFT_OUT if _holds_secret(value) else _plain(value)
    return values


def _plain_model(model: ModelConfig) -> dict[str, Any]:
    values: dict[str, Any] = _plain(model.model_dump(mode="json", exclude_unset=True))
    if isinstance(model.manual_traces, Path):
        values["manual_traces"] = str(model.manual_traces.absolute())
    if model.endpoint_base_url is not None:
        values[_URL] = _url_label(model.endpoint_base_url)
    for name, secrecy in SECRECY.items():
        if values.get(name):
            values[name] = _without_secrets(values[name]) if secrecy == "by_name" else LEFT_OUT
    if model.mcp_urls_dict:
        values["mcp_urls_dict"] = dict.fromkeys(sorted(model.mcp_urls_dict), LEFT_OUT)
    return values


def _url_label(url: str) -> str:
    """Return a URL without what may be a secret in it; a few digits of its digest tell it from others."""
    shown = redact_url(url)
    return f"{shown}#{hashlib.sha256(url.encode()).hexdigest()[:8]}" if MASK in shown else shown


def _without_secrets(value: Any) -> Any:
    """Settings of an adapter, with all that has the name of a secret, and all HTTP headers, left out."""
    if not isinstance(value, dict):
        return value
    return {
        key: LEFT_OUT if _SECRET_NAME.search(str(key)) or "headers" in str(key).lower() else _without_secrets(one)
        for key, one in value.items()
    }


def _holds_secret(value: Any) -> bool:
    return isinstance(value, SecretStr)


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(to_jsonable_python(value, fallback=lambda one: f"(no data: {type(one).__name__})")))


def _whole_model(stored: Mapping[str, Any], now: Any) -> Any:
    """Return the entry of a model as the run had it. Raises `ConfigError` if it cannot be had any more."""
    lacking = [name for name, value in stored.items() if _says_left_out(value) or (name == _URL and MASK in value)]
    if now is not None:
        differing = _differences(stored, now)
        if not differing:
            return now
        if lacking:
            raise ConfigError(
                [
                    f"the model {stored['id']!r} of the configuration is not that of the run any more "
                    f"({', '.join(differing)}), and a secret is used only with the entry that it stands in: give the "
                    "whole `karenina run` command again"
                ]
            )
    values = dict(stored)
    for name in lacking:
        if SECRECY.get(name) != "key":
            raise ConfigError(
                [
                    f"{name} of the model {stored['id']!r} is not stored, because it may hold a secret, and it is not "
                    "in the configuration file either: give the whole `karenina run` command again"
                ]
            )
        del values[name]
    return values


def _differences(stored: Mapping[str, Any], now: Any) -> list[str]:
    """Return the fields in which two entries of a model differ, but for their secrets."""
    try:
        model = now if isinstance(now, ModelConfig) else ModelConfig.model_validate(now)
    except ValidationError:
        return ["it is not a model's configuration"]
    entry = _plain_model(model)
    plain = ModelConfig(id="-", interface="-", model_name="-").model_dump(mode="json")
    names = [name for name in plain if SECRECY.get(name) != "key"]
    return [name for name in names if stored.get(name, plain[name]) != entry.get(name, plain[name])]


def _says_left_out(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_says_left_out(one) for one in value.values())
    return bool(value == LEFT_OUT)


def _field(model: Any, name: str) -> Any:
    return model.get(name) if isinstance(model, Mapping) else getattr(model, name, None)
