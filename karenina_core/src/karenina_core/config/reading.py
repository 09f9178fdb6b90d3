"""Values of configuration names as people write them: in the environment, on the command line and in files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from karenina_core import files
from karenina_core.bounds import MAX_DIGITS, trouble_in
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


def read_table(path: str | Path, *, max_bytes: int | None = None) -> dict[str, Any]:
    """Return the table in a TOML, YAML or JSON file. Raises `ConfigError` if it cannot be read.

    At most 100 MB are read; `max_bytes` or the environment variable `KARENINA_MAX_FILE_BYTES` sets another bound. The
    errors name places and show nothing of the file, which may hold keys.
    """
    file = Path(path)
    try:
        found = _parse_table(file, files.read_text(file, max_bytes=max_bytes))
    except files.FileError as error:
        place = f" at {error.where}" if error.where else ""
        problem = f"the configuration file {file} cannot be read{place}: {error.what}; {error.cure}"
        raise ConfigError([problem]) from error
    except ValueError as error:
        raise ConfigError([f"the configuration file {file} is not well-formed: {error}"]) from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigError([f"the configuration file {file} holds a {type(found).__name__}, not a table of names"])
    return found


def _parse_table(file: Path, text: str) -> Any:
    suffix = file.suffix.lower()
    if suffix in (".yaml", ".yml"):
        return _parse_yaml(file, text)
    try:
        if suffix == ".toml":
            import tomllib

            found: Any = tomllib.loads(text)
        elif suffix == ".json":
            import json

            found = json.loads(text)
        else:
            raise ValueError(f"its suffix is {suffix!r}, and a configuration is .toml, .yaml, .yml or .json")
    except RecursionError:
        raise ValueError("it is nested too deeply; check the file") from None
    except ValueError as error:
        if "int_max_str_digits" in str(error):
            raise ValueError(f"a whole number has more than {MAX_DIGITS} digits; shorten it") from None
        raise
    trouble = trouble_in(found)
    if trouble is not None:
        raise ValueError(f"{trouble.where}: {trouble.what}; {trouble.cure}".removeprefix(": "))
    return found


def _parse_yaml(file: Path, text: str) -> Any:
    from karenina_core.benchmark.errors import CheckpointError
    from karenina_core.benchmark.yamlform import read

    try:
        return read(text, file).value
    except CheckpointError as error:
        raise ValueError(f"{error.where}: {error.what}; {error.cure}".removeprefix(": ")) from None


def _read_value(text: str, annotation: Any) -> Any:
    kind = get_origin(annotation)
    one_of_several = get_args(annotation) if kind in (Union, UnionType) else ()
    if annotation is str or str in one_of_several or kind is Literal:
        return text
    try:
        return TypeAdapter(Any).validate_json(text)
    except ValidationError:
        return text
