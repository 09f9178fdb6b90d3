"""What a journal notes of how a run was started: enough to give the same command again, and no secret."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr
from pydantic_core import to_jsonable_python

from karenina_core.errors import ConfigError
from karenina_core.models import SECRECY
from karenina_core.run.fingerprint import question_digest

if TYPE_CHECKING:
    from karenina_core.benchmark import Benchmark
    from karenina_core.config import VerificationConfig
    from karenina_core.models import ModelConfig

LEFT_OUT: Final = "(left out of the journal: it is or may hold a secret)"
"""What stands in a journal where the command had a secret; `with_secrets` puts it back."""

_MODELS: Final = ("answering_models", "parsing_models")
_SECRET_NAME: Final = re.compile(r"key|token|secret|password|authorization|credential", re.IGNORECASE)


def command_of(
    benchmark: Benchmark,
    config: VerificationConfig,
    *,
    question_ids: Iterable[str] | None = None,
    output: str | Path | None = None,
    config_file: Path | None = None,
    trust_all: bool = False,
) -> dict[str, Any]:
    """The command that is given, as JSON values without secrets: two that are equal ask for the same."""
    chosen = list(question_ids) if question_ids is not None else None
    return {
        "folder": str(Path.cwd()),
        "benchmark": str(benchmark.path.absolute()) if benchmark.path is not None else None,
        "content": content_digest(benchmark),
        "config_file": str(config_file.absolute()) if config_file is not None else None,
        "config": _plain_config(config),
        "questions": None if chosen == list(benchmark.ids) else chosen,
        "output": str(Path(output).absolute()) if output is not None else None,
        "trust_all": trust_all,
    }


def same_run(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two commands ask for the same results: settings on which none depends, such as a budget, may differ."""
    return _asked(one) == _asked(other)


def _asked(command: Mapping[str, Any]) -> dict[str, Any]:
    from karenina_core.config import settings

    of_no_result = {name for name, setting in settings().items() if not setting.changes_results}
    config = command.get("config") or {}
    return {**command, "config": {name: value for name, value in config.items() if name not in of_no_result}}


def content_digest(benchmark: Benchmark) -> str:
    """A digest of the benchmark's file, or of its questions where it has none."""
    if benchmark.path is not None and benchmark.path.is_file():
        with benchmark.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for question in benchmark:
        digest.update(question_digest(question))
    return digest.hexdigest()


def with_secrets(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The names of a stored configuration, with what was left out taken from `given`, which the user's files say now.

    Models are found by their id. A key that nobody gives is left to the environment; anything else that was left out
    and is not there any more raises `ConfigError`.
    """
    values = dict(stored)
    for name in _MODELS:
        if name in values:
            now = {_field(model, "id"): model for model in given.get(name) or ()}
            values[name] = [_model_with_secrets(model, now.get(model["id"])) for model in values[name]]
    for name, value in values.items():
        if value == LEFT_OUT:
            if name not in given:
                raise ConfigError([f"{name} is not in the journal, which holds no secrets: set it in the environment"])
            values[name] = given[name]
    return values


def _plain_config(config: VerificationConfig) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in config.given().items():
        if name in _MODELS:
            values[name] = [_plain_model(model) for model in value]
        else:
            values[name] = LEFT_OUT if _holds_secret(value) else _plain(value)
    return values


def _plain_model(model: ModelConfig) -> dict[str, Any]:
    values: dict[str, Any] = _plain(model.model_dump(mode="json", exclude_unset=True))
    if isinstance(model.manual_traces, Path):
        values["manual_traces"] = str(model.manual_traces.absolute())
    for name, secrecy in SECRECY.items():
        if values.get(name):
            values[name] = _without_secrets(values[name]) if secrecy == "by_name" else LEFT_OUT
    return values


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


def _model_with_secrets(stored: Mapping[str, Any], now: Any) -> dict[str, Any]:
    values = dict(stored)
    for name, value in stored.items():
        if not _says_left_out(value):
            continue
        found = _field(now, name) if now is not None else None
        if found:
            values[name] = found
        elif SECRECY.get(name) == "key":
            del values[name]
        else:
            raise ConfigError(
                [
                    f"{name} of the model {stored['id']!r} is not in the journal, because it may hold a secret, and it "
                    "is not in the configuration file either: give the whole `karenina run` command again"
                ]
            )
    return values


def _says_left_out(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_says_left_out(one) for one in value.values())
    return bool(value == LEFT_OUT)


def _field(model: Any, name: str) -> Any:
    return model.get(name) if isinstance(model, Mapping) else getattr(model, name, None)
