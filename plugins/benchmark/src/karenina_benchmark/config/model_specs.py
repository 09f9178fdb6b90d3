"""Models on the command line, written as `interface:model_name` with an optional base URL, or as a JSON object."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from karenina_core.errors import ConfigError
from karenina_toolkit.files import FileError, read_records
from karenina_toolkit.files.json_values import find_problem_in_json
from karenina_toolkit.files.safe_paths import describe_repeated
from karenina_toolkit.http.urls import complete_url, redact_url

logger = logging.getLogger("karenina")

_URL = re.compile(r"@(?P<url>https?://.*)$", re.IGNORECASE)
_OTHER_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://")
_INTERFACE = re.compile(r"[A-Za-z_][\w.-]*")
_HARMLESS = re.compile(r"[\w./-]{1,60}:?")
_HARMLESS_NAME = re.compile(r"[\w./:-]{1,60}")
_PATH = ("/", "./", "../", "~")
_FORMS = 'write interface:model_name, interface:model_name@http://host/v1, or a JSON object such as {"interface": ...}'


def parse_model(spec: str) -> dict[str, Any]:
    """Parse a model given on the command line, as `INTERFACE:NAME`, `INTERFACE:NAME@URL` or a JSON object, and return
    its fields, of which `id` may be missing. Raises `ConfigError` for other texts. The fields of a JSON object are not
    checked, nor is whether such a model exists.

    A specification that starts with a brace is a JSON object. Otherwise, the interface ends at the first colon, so
    model names may contain colons (`openai:llama3:8b`). The base URL follows the first `@` that precedes `http://` or
    `https://`.
    """
    text = spec.strip()
    if text.startswith("{"):
        return _parse_object(text)
    interface, colon, rest = text.partition(":")
    if not colon or not rest or not _INTERFACE.fullmatch(interface):
        shown = repr(text) if _HARMLESS.fullmatch(text) else "the model specification"
        raise ConfigError([f"{shown} does not name the interface of the model; {_forms(text)}"])
    found_url = _URL.search(rest)
    if found_url is not None:
        name = rest[: found_url.start()]
        if not name:
            raise ConfigError([f"the {interface!r} model has a base URL but no name; {_FORMS}"])
        return {"interface": interface, "model_name": name, "endpoint_base_url": found_url["url"]}
    if rest.endswith("@"):
        shown = f"{interface}:{rest}" if _HARMLESS_NAME.fullmatch(rest[:-1]) else f"the {interface!r} model"
        raise ConfigError([f"the address after the '@' of {shown} is empty; write the address, or leave out the '@'"])
    if not rest.startswith(_PATH):
        _check_address(interface, rest)
    return {"interface": interface, "model_name": rest}


def _forms(text: str) -> str:
    """Describe how to write a model. The examples contain `text` if it has no colon and is safe to show."""
    if ":" in text or not _HARMLESS_NAME.fullmatch(text):
        return _FORMS
    return f"write interface:model_name, for example openai:{text}, or openai:{text}@http://host/v1 for your own server"


def _check_address(interface: str, rest: str) -> None:
    """Raise `ConfigError` if the base URL in `rest`, what follows `interface:`, has no scheme or another than HTTP,
    because it would become part of the model name, and calls would go to the provider's default server. The message
    does not show anything that may be an API key.
    """
    name, _, address = rest.rpartition("@")
    shown = name if _HARMLESS_NAME.fullmatch(name) else "NAME"
    other = _OTHER_SCHEME.match(address) if name else None
    if other is not None:
        raise ConfigError(
            [f"the base URL of {interface}:{shown} starts with {other[0]}; use one with http:// or https://"]
        )
    url = complete_url(address) if name else None
    if url is None:
        return
    raise ConfigError(
        [
            f"the base URL of {interface}:{shown} does not start with http:// or https://; did you mean "
            f"{interface}:{shown}@{redact_url(url)}?"
        ]
    )


def _parse_object(text: str) -> dict[str, Any]:
    """Parse a model that is a JSON object. Raises `ConfigError` without quoting `text`, because it may contain an API
    key.
    """
    try:
        model: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        complete = error.pos < len(error.doc.rstrip())
        what = f"invalid at {place}: {error.msg}" if complete else f"incomplete; it ends at {place}"
        cure = "" if '"' in text else "; in a shell, put the object in single quotes"
        raise ConfigError([f"the JSON object for a model is {what}{cure}"]) from None
    except (ValueError, RecursionError):
        what = "contains a number that is too large, or is nested too deeply"
        raise ConfigError([f"the JSON object for a model {what}"]) from None
    trouble = find_problem_in_json(text, model)
    if trouble is not None:
        place = f" in {trouble.where}" if trouble.where else ""
        raise ConfigError([f"the JSON object for a model cannot be used: {trouble.what}{place}; {trouble.cure}"])
    return model


def _recorded_model(path: Path) -> str:
    """Read the answers in a file, and return the model name that all of them share, or the file's stem if they differ,
    if one has none, or if the file cannot be read. The adapter, which reads it again, reports what is wrong.
    """
    name = None
    try:
        with read_records(path) as records:
            for number, record in enumerate(records):
                of_row = record.value.get("model") if isinstance(record.value, dict) else None
                if not isinstance(of_row, str) or (number and of_row != name):
                    return path.stem
                name = of_row
    except FileError:  # the adapter, which reads the answers, reports what is wrong
        return path.stem
    return name if name and name.strip() else path.stem


def parse_models(specs: Iterable[str], recordings: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """Return the models for one role: those in `specs`, and for each file in `recordings` one that returns the answers
    in it. Each has an `id`: as specified, or otherwise the model's name, with a number added if that is taken. If a
    different model has taken it, a warning states both ids. Raises `ConfigError` if a model is invalid or a file is
    given twice.

    The name of a recording's model is the model name that all answers share, or the file's stem if they differ.
    """
    models = [parse_model(spec) for spec in specs]
    repeated = describe_repeated(recordings)
    if repeated is not None:
        raise ConfigError([f"the recordings file {repeated}; name each file only once"])
    for path in recordings:
        name = _recorded_model(path)
        models.append({"interface": recording_interface(), "model_name": name, "manual_traces": str(path)})
    taken = {model["id"] for model in models if isinstance(model.get("id"), str)}
    for model in models:
        if "id" in model:
            continue
        base = str(model.get("model_name") or model.get("interface") or "model")
        id, number = base, 2
        while id in taken:
            id, number = f"{base}-{number}", number + 1
        taken.add(id)
        model["id"] = id
        if id != base:
            other = next((_origin(earlier) for earlier in models if earlier.get("id") == base), None)
            if other not in (None, _origin(model)):
                logger.warning(
                    "two models have the name %r: %r is %s, and %r is %s. To choose an id, specify the model as "
                    "a JSON object with `id`",
                    *(base, base, other, id, _origin(model)),
                )
    return models


def _origin(model: Mapping[str, Any]) -> str:
    """Return the source of a model's replies: its recordings, or its interface, name and base URL without secrets."""
    traces = model.get("manual_traces")
    if isinstance(traces, str):
        return traces
    name = f"{model.get('interface')}:{model.get('model_name')}"
    url = model.get("endpoint_base_url")
    return f"{name}@{redact_url(url)}" if isinstance(url, str) else name


def recording_interface() -> str:
    """Return the interface of the adapter that replays recordings, even if it is not installed. Raises `ConfigError` if
    there are several.
    """
    from karenina_core import plugins
    from karenina_core.catalog import read_catalog
    from karenina_toolkit.plugin_lookup import registered_adapters

    installed = [
        offered.spec.interface for offered in registered_adapters(plugins.active_plugins()) if offered.spec.recorded
    ]
    interfaces = installed or list(read_catalog()["recorders"])
    if len(interfaces) > 1:
        names = ", ".join(interfaces)
        raise ConfigError([f"several adapters replay recordings ({names}); select one with --answering '{{...}}'"])
    return interfaces[0]
