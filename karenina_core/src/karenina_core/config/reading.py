"""Values of configuration names as people write them: in the environment, on the command line and in files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from karenina_core.config.names import settings
from karenina_core.errors import ConfigError


def from_environment() -> Iterator[tuple[str, Any]]:
    """The names that environment variables set, with their values read as the owner's type asks.

    Text that is no JSON is taken as it stands: `KARENINA_RUN_NAME=nightly` and `KARENINA_REPLICATE_COUNT=3` both work.
    """
    for name, setting in settings().items():
        for variable in setting.environment:
            if variable in os.environ and variable != "KARENINA_PLUGINS":
                yield name, _read_value(os.environ[variable], setting.info.annotation)
                break


def read_value(name: str, text: str) -> Any:
    """The value that `name=text` means, by the type of the name; unknown names are read as JSON where they can be."""
    setting = settings().get(name)
    return _read_value(text, setting.info.annotation if setting is not None else None)


def read_table(path: str | Path) -> dict[str, Any]:
    """The table in a TOML, YAML or JSON file. Raises `ConfigError` where it cannot be read."""
    file = Path(path)
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"the configuration file {file} cannot be read: {error}"]) from error
    try:
        found = _parse_table(file.suffix.lower(), text)
    except ValueError as error:
        raise ConfigError([f"the configuration file {file} is not well-formed: {error}"]) from error
    if not isinstance(found, dict):
        raise ConfigError([f"the configuration file {file} holds a {type(found).__name__}, not a table of names"])
    return found


def _parse_table(suffix: str, text: str) -> Any:
    if suffix == ".toml":
        import tomllib

        return tomllib.loads(text)
    if suffix == ".json":
        import json

        return json.loads(text)
    if suffix in (".yaml", ".yml"):
        import yaml

        try:
            return yaml.safe_load(text) or {}
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error
    raise ValueError(f"its suffix is {suffix!r}, and a configuration is .toml, .yaml, .yml or .json")


def _read_value(text: str, annotation: Any) -> Any:
    kind = get_origin(annotation)
    one_of_several = get_args(annotation) if kind in (Union, UnionType) else ()
    if annotation is str or str in one_of_several or kind is Literal:
        return text
    try:
        return TypeAdapter(Any).validate_json(text)
    except ValidationError:
        return text
