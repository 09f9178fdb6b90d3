"""Storing a run's command without secrets, and restoring the secrets to resume the run.

The journal stores the command as a label only. `karenina resume` reads it from the user's state folder
(`karenina_engine.journal.user_state`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr, ValidationError
from pydantic_core import to_jsonable_python

from karenina_core.errors import ConfigError
from karenina_core.models.model import SECRECY, ModelConfig
from karenina_engine.calls.reply_json import dump_json_bytes
from karenina_engine.journal.fingerprint import digest_question
from karenina_engine.model_settings import map_models, model_settings, models_in
from karenina_toolkit.http.urls import MASK, redact_url

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_engine.question_source import QuestionSource

LEFT_OUT: Final = "(left out of the journal: it is or may hold a secret)"
"""The placeholder for a secret.

To restore the secret, `restore_secrets` uses the whole entry from the user's own file.
"""

OWN_ONLY: Final = ("files", "paths", "benchmark_names")
"""The parts of a command that are only in the user's own record: local files, and names used in the benchmark."""

_URL: Final = "endpoint_base_url"
_SECRET_NAME: Final = re.compile(r"key|token|secret|password|authorization|credential", re.IGNORECASE)
_WORDS_OF_TYPES: Final = frozenset(("type", "title", "description", "format", "minLength", "maxLength"))
"""Keys of a JSON schema that contain no values of an argument, such as a default."""


def is_same_run(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two commands ask for the same results. Versions, settings that do not change results (such as a
    budget), and the parts that are only in the user's own record are ignored, but the folder and the output must be
    equal.
    """
    return _result_settings(one) == _result_settings(other)


def _result_settings(command: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a command that can change its results: not versions, parts that are only in the user's own
    record, and settings that do not affect results.
    """
    from karenina_core.config import all_settings

    of_no_result = {name for name, setting in all_settings().items() if not setting.changes_results}
    config = command.get("config")
    asked = config if isinstance(config, Mapping) else {}
    rest = {name: value for name, value in command.items() if name not in ("distributions", *OWN_ONLY)}
    return {**rest, "config": {name: value for name, value in asked.items() if name not in of_no_result}}


def digest_content(benchmark: QuestionSource) -> str:
    """Return a digest of the benchmark's file or, if it has none or the file is gone, of its questions."""
    if benchmark.path is not None and benchmark.path.is_file():
        with benchmark.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for question in benchmark:
        digest.update(digest_question(question))
    return digest.hexdigest()


def digest_trusted_content(benchmark: QuestionSource) -> str:
    """Return a digest of everything in the benchmark that `--trust-all` covers: its configuration, rubrics, workspace
    root, named files and questions.
    """
    root = str(benchmark.workspace_root) if benchmark.workspace_root is not None else None
    digest = hashlib.sha256(digest_values([benchmark.run_config, root, list(benchmark.named_files)]).encode())
    for rubric in (benchmark.global_rubric, benchmark.dynamic_rubric):
        digest.update(dump_json_bytes(rubric.model_dump() if rubric is not None else None, str))
    for question in benchmark:
        digest.update(digest_question(question))
    return digest.hexdigest()


def has_same_benchmark_config(benchmark: QuestionSource, command: Mapping[str, Any]) -> bool:
    """Return whether the benchmark's own configuration has not changed since the command was stored."""
    return digest_values(benchmark.run_config) == command.get("benchmark_config")


def digest_values(value: Any) -> str:
    """Return a digest of `value` as JSON. Values that JSON does not support are converted with `str`."""
    return hashlib.sha256(dump_json_bytes(to_jsonable_python(value, fallback=str), str)).hexdigest()


def restore_secrets(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored configuration with its secrets filled in from `given`, the user's current settings, with models
    matched by id. Raises `ConfigError` if an entry with a secret has changed, or if a secret is missing. Missing API
    keys are read from the environment later.

    Models are matched by id, and must be equal except for their secrets. The user's whole entry is then used, so that a
    secret never ends up in an entry from elsewhere.
    """
    values = dict(stored)
    for name in model_settings():
        if name in values:
            now = {_field(model, "id"): model for model in models_in(given.get(name))}
            values[name] = map_models(values[name], partial(_restore_by_id, now))
    for name, value in values.items():
        if value == LEFT_OUT:
            if name not in given:
                raise ConfigError([f"{name} was not stored because it is a secret; set its environment variable"])
            values[name] = given[name]
    return values


def _restore_by_id(now: Mapping[Any, Any], stored: Mapping[str, Any]) -> Any:
    """Return a stored model with the secrets of the entry in `now` that has the same id. See `restore_secrets`."""
    return _restore_model(stored, now.get(stored["id"]))


def dump_config(config: VerificationConfig) -> dict[str, Any]:
    """Return the settings that a configuration was given as JSON-compatible data, without secrets."""
    values: dict[str, Any] = {}
    holding = model_settings()
    for name, value in config.given().items():
        if name in holding:
            values[name] = map_models(value, _dump_model)
        else:
            values[name] = LEFT_OUT if _holds_secret(value) else _to_json(value)
    return values


def _dump_model(model: ModelConfig) -> dict[str, Any]:
    """Return the fields of a model that are set, as JSON-compatible data, with `LEFT_OUT` in place of secrets and MCP
    addresses, and without the secrets in its base URL.
    """
    values: dict[str, Any] = _to_json(model.model_dump(mode="json", exclude_unset=True))
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
    """Return a URL with its secret parts masked. If anything was masked, part of the URL's digest is appended so that
    different URLs remain different.
    """
    shown = redact_url(url)
    return f"{shown}#{hashlib.sha256(url.encode()).hexdigest()[:8]}" if MASK in shown else shown


def _without_secrets(value: Any, place: str = "") -> Any:
    """Return an adapter's settings with `LEFT_OUT` in place of HTTP headers and values that are named like secrets.
    Nested tables and lists are searched. `place` is the path to `value`, in which *[]* stands for a list.
    """
    if isinstance(value, list):
        return [_without_secrets(item, f"{place}[]") for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: LEFT_OUT if _is_secret(str(key), item, place) else _without_secrets(item, f"{place}.{key}")
        for key, item in value.items()
    }


def _is_secret(name: str, value: object, place: str) -> bool:
    """Return whether a value in the table at `place` is named like a secret or contains HTTP headers. Outside of lists,
    all such values count, because no journal has ever contained them.
    """
    named = _SECRET_NAME.search(name) is not None or "headers" in name.lower()
    return named and not ("[]" in place and is_no_secret(name, value, place))


def is_no_secret(name: str, value: object, place: str) -> bool:
    """Return whether a value in the table at `place` is no secret even if it is named like one: a number of tokens, or
    the type of a tool's argument, which is a JSON schema without values, in a table `properties`.
    """
    if isinstance(value, Mapping):
        return place.endswith(".properties") and "type" in value and value.keys() <= _WORDS_OF_TYPES
    return isinstance(value, int | float) and "tokens" in name.lower()


def _holds_secret(value: Any) -> bool:
    """Return whether the value of a setting is marked as a secret."""
    return isinstance(value, SecretStr)


def _to_json(value: Any) -> Any:
    """Return `value` as JSON-compatible data. Unsupported values are replaced by the names of their types."""
    return json.loads(
        json.dumps(to_jsonable_python(value, fallback=lambda other: f"(no data: {type(other).__name__})"))
    )


def _restore_model(stored: Mapping[str, Any], now: Any) -> Any:
    """Return a model's entry with its secrets: `now`, the user's current entry, if it is otherwise equal, and else
    `stored`, without keys that were not stored. Raises `ConfigError` if `now` differs and `stored` lacks a secret, or
    if a secret other than a key is missing.
    """
    lacking = [name for name, value in stored.items() if _has_left_out(value) or (name == _URL and MASK in value)]
    if now is not None:
        differing = _differences(stored, now)
        if not differing:
            return now
        if lacking:
            raise ConfigError(
                [
                    f"the model {stored['id']!r} in the configuration has changed since the run "
                    f"({', '.join(differing)}), and a secret is used only with the entry that it belongs to; run the "
                    "whole `karenina run` command again"
                ]
            )
    values = dict(stored)
    for name in lacking:
        if SECRECY.get(name) != "key":
            raise ConfigError(
                [
                    f"{name} of the model {stored['id']!r} was not stored because it may contain a secret, and it is "
                    "not in the configuration file; run the whole `karenina run` command again"
                ]
            )
        del values[name]
    return values


def _differences(stored: Mapping[str, Any], now: Any) -> list[str]:
    """Return the names of the fields in which two entries for a model differ, ignoring keys and secrets that an earlier
    version stored. If `now` is not a valid entry, returns a list with a message that says so.
    """
    try:
        model = now if isinstance(now, ModelConfig) else ModelConfig.model_validate(now)
    except ValidationError:
        return ["it is not a valid model configuration"]
    entry = _dump_model(model)
    plain = ModelConfig(id="-", interface="-", model_name="-").model_dump(mode="json")
    names = [name for name in plain if SECRECY.get(name) != "key"]
    return [name for name in names if not _is_same(stored.get(name, plain[name]), entry.get(name, plain[name]))]


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal apart from secrets, which are left out of at least one of them: journals of
    earlier versions contain values of lists that are left out now.
    """
    if LEFT_OUT in (one, other):
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def _has_left_out(value: Any) -> bool:
    """Return whether a value, or one in its tables and lists, is the placeholder for a secret."""
    if isinstance(value, dict | list):
        return any(map(_has_left_out, value.values() if isinstance(value, dict) else value))
    return bool(value == LEFT_OUT)


def _field(model: Any, name: str) -> Any:
    return model.get(name) if isinstance(model, Mapping) else getattr(model, name, None)
