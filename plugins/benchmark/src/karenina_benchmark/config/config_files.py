"""Configuration files in TOML, YAML and JSON."""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic_core import PydanticSerializationError, to_json

from karenina_core.config import VerificationConfig, flatten_settings, read_environment, translate_settings
from karenina_core.errors import ConfigError
from karenina_core.models.model import SECRECY, ModelConfig
from karenina_engine.journal.command import is_no_secret
from karenina_engine.model_settings import map_models, model_settings
from karenina_toolkit.files import bounded_files, replace_file
from karenina_toolkit.files.json_values import MAX_DIGITS, find_problem

if TYPE_CHECKING:
    from karenina_benchmark.content import BenchmarkContent


_SECRET_NAME: Final = re.compile(
    r"headers|(^|[_-])(key|token|secret|password|authorization|credential)s?$", re.IGNORECASE
)

_PRESET: Final = frozenset({"id", "name", "description", "config", "created_at", "updated_at"})

logger = logging.getLogger("karenina")


def read_config(path: str | Path, **arguments: Any) -> VerificationConfig:
    """Load a configuration from a TOML, YAML or JSON file. Environment variables override the file, and `arguments`
    override both. Raises `ConfigError` if the file cannot be read or a value is invalid.
    """
    return VerificationConfig(**{**read_config_values(path), **dict(read_environment()), **arguments})


def save_config(config: VerificationConfig, path: str | Path) -> None:
    """Save the explicitly set values to a JSON file, for use with `read_config` and the option `--config`. An existing
    file is replaced. API keys and other possible secrets are omitted with a warning. Raises `ConfigError` if the file
    name does not end in `.json`, a value cannot be saved, or the file cannot be written.
    """
    file = Path(path)
    if file.suffix != ".json":
        raise ConfigError(
            [f"{file}: a configuration can be saved only as JSON; name the file {file.stem or 'karenina'}.json"]
        )
    values, left_out = values_to_save(config)
    try:
        data = to_json(values, indent=2)
        replace_file(file, lambda new: new.write(data), follow=True)
    except (PydanticSerializationError, OSError) as error:
        raise ConfigError([f"cannot save the configuration in {file}: {error}"]) from error
    warn_of_secrets(file, left_out)


def values_to_save(config: VerificationConfig) -> tuple[dict[str, Any], list[str]]:
    """Return the explicitly set values, and the names of the secrets that were omitted. An example of a name is
    `parsing_models.ID.endpoint_api_key`.
    """
    values, left_out = config.given(), list[str]()
    for name in model_settings():

        def public(model: ModelConfig, name: str = name) -> dict[str, Any]:
            """Return the model without its secrets, and record their names."""
            kept, secrets = _without_secrets(model.model_dump(mode="json", exclude_unset=True), f"{name}.{model.id}")
            left_out.extend(secrets)
            return kept

        values.update({name: map_models(values[name], public)} if name in values else {})
    return values, left_out


def warn_of_secrets(file: Path, left_out: Sequence[str]) -> None:
    """Log a warning with the names of the secrets that were not saved, if any."""
    if left_out:
        logger.warning("%s: some settings were not saved because they may be secret: %s", file, ", ".join(left_out))


def _without_secrets(values: dict[str, Any], place: str) -> tuple[dict[str, Any], list[str]]:
    """Return a model's values without its secrets, and the names of the secrets, each preceded by `place`. In settings
    that may contain secrets among other values, the entries that are named like secrets are removed.
    """
    public: dict[str, Any] = {}
    left_out: list[str] = []
    for name, value in values.items():
        secrecy = SECRECY.get(name)
        if value and secrecy in ("key", "whole"):
            left_out.append(f"{place}.{name}")
        else:
            public[name] = _without_named(value, f"{place}.{name}", left_out) if secrecy is not None else value
    return public, left_out


def _without_named(value: Any, place: str, left_out: list[str]) -> Any:
    """Return the value at `place` without entries that are named like secrets, such as `api_key`, in its dicts and
    lists at any depth. Their names are added to `left_out`. Empty values are kept, and so are values that are no secret
    despite their name (`is_no_secret`).
    """
    if isinstance(value, list):
        return [_without_named(item, f"{place}.{position}", left_out) for position, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    public = {}
    for name, inner in value.items():
        if inner and _SECRET_NAME.search(name) and not is_no_secret(name, inner, place):
            left_out.append(f"{place}.{name}")
        else:
            public[name] = _without_named(inner, f"{place}.{name}", left_out)
    return public


def read_config_values(path: str | Path, *, max_bytes: int | None = None) -> dict[str, Any]:
    """Read the values in a TOML, YAML or JSON file. Raises `ConfigError` if the file cannot be read; its message does
    not quote values, which may be API keys. For a preset from the reference project, the settings within it are
    returned.

    The file may be up to 100 MB in size. Set another limit with `max_bytes` or the environment variable
    `KARENINA_MAX_FILE_BYTES`. An empty file has no values.
    """
    file = Path(path)
    try:
        values = _parse(file, bounded_files.read_text(file, max_bytes=max_bytes))
    except bounded_files.FileError as error:
        place = f" at {error.where}" if error.where else ""
        problem = f"the configuration file {file} cannot be read{place}: {error.what}; {error.cure}"
        raise ConfigError([problem]) from error
    except ValueError as error:
        cure = "; strings need quotes" if str(error).startswith("Invalid value") else ""
        raise ConfigError([f"the configuration file {file} is not valid: {error}{cure}"]) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        kind = type(values).__name__
        raise ConfigError(
            [
                f"the configuration file {file} must contain a table of settings (name = value), not a value of "
                f"type {kind}"
            ]
        )
    return _without_wrapper(values)


def _without_wrapper(values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings under `config` if this is a preset from the reference project. Models without an interface
    get that project's default. Any other values are returned unchanged.
    """
    inner = values.get("config")
    if not isinstance(inner, dict) or any(key not in _PRESET and key[:1] != "_" for key in values):
        return values
    models = {name: inner[name] for name in ("answering_models", "parsing_models") if isinstance(inner.get(name), list)}
    return inner | {name: [_with_default_interface(model) for model in listed] for name, listed in models.items()}


def _with_default_interface(model: Any) -> Any:
    """Return the model with the interface `langchain`, the default of the reference project, if it has none. Anything
    other than a dict is returned unchanged.
    """
    return {"interface": "langchain", **model} if isinstance(model, dict) else model  # the reference's default


def _parse(file: Path, text: str) -> Any:
    """Parse the text of a file. Raises `ValueError` (not `ConfigError`), without quoting values, if the text is invalid
    or the file's suffix is unknown.
    """
    suffix = file.suffix.lower()
    if suffix in (".yaml", ".yml"):
        return _parse_yaml(file, text)
    try:
        if suffix == ".toml":
            import tomllib

            values: Any = tomllib.loads(text)
        elif suffix == ".json":
            import json

            values = json.loads(text)
        else:
            raise ValueError(f"the file extension {suffix!r} is not supported; use .toml, .yaml, .yml or .json")
    except RecursionError:
        raise ValueError("the contents of the file are nested too deeply; simplify them") from None
    except ValueError as error:
        if "int_max_str_digits" in str(error):
            raise ValueError(f"integers may have at most {MAX_DIGITS} digits") from None
        raise
    trouble = find_problem(values)
    if trouble is not None:
        raise ValueError(f"{trouble.where}: {trouble.what}; {trouble.cure}".removeprefix(": "))
    return values


def _parse_yaml(file: Path, text: str) -> Any:
    """Parse a YAML file. Raises `ValueError` (not `ConfigError`), with the place and a fix, if the text is invalid."""
    from karenina_benchmark.errors import BenchmarkFileError
    from karenina_benchmark.yaml_files import read

    try:
        return read(text, file).value
    except BenchmarkFileError as error:
        raise ValueError(f"{error.where}: {error.what}; {error.cure}".removeprefix(": ")) from None


class ConfigLayers:
    """Layers of settings in which later layers override earlier ones. The origin of each value is recorded."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origin: dict[str, str] = {}

    def add(self, values: Mapping[str, Any], origin: str) -> None:
        """Add a layer of values from `origin`, which override those of earlier layers. Raises `ConfigError` if they
        conflict.
        """
        try:
            flat = translate_settings(flatten_settings(values))
        except ConfigError as error:
            raise ConfigError([f"{origin}, {problem}" for problem in error.problems]) from error
        self.values.update(flat)
        self.origin.update(dict.fromkeys(flat, origin))

    def names_from(self, origin: str) -> frozenset[str]:
        """Return the names of the settings whose values come from `origin`."""
        return frozenset(name for name, source in self.origin.items() if source == origin)

    def make_config(self) -> VerificationConfig:
        """Build the configuration. Raises `ConfigError` with the origin of each invalid value."""
        try:
            return VerificationConfig(**self.values)
        except ConfigError as error:
            raise ConfigError([self._with_origin(problem) for problem in error.problems]) from error

    def _with_origin(self, problem: str) -> str:
        """Return `problem`, prefixed with the origin of the setting that it starts with, or unchanged if that is
        unknown, or is the environment variable that `problem` names.
        """
        full = problem.partition(":")[0].partition(" ")[0]
        name = full if full in self.origin else full.partition(".")[0]
        if name not in self.origin or name in os.environ:  # the name of a variable is its origin
            return problem
        return f"{self.origin[name]}, {problem}"


def resolve_recordings(table: Mapping[str, Any], file: Path | None) -> dict[str, Any]:
    """Return the settings in `table` by full name, with relative paths to recordings resolved against the folder of
    `file`. If `file` is None, the paths are left unchanged. If settings conflict, `table` is returned unchanged; the
    error is reported when they are used.
    """
    folder = file.parent if file is not None else Path()
    holding = model_settings()
    try:
        settings = flatten_settings(table)
    except ConfigError:  # reported with its origin when the settings are used
        return dict(table)
    return {
        name: map_models(value, lambda model: _resolve_recording(model, folder)) if name in holding else value
        for name, value in settings.items()
    }


def _resolve_recording(model: Any, folder: Path) -> Any:
    """Return the model with the path in its `manual_traces` resolved against `folder`. Anything else is returned
    unchanged.
    """
    traces = model.get("manual_traces") if isinstance(model, Mapping) else None
    if not isinstance(traces, str) or Path(traces).is_absolute():
        return model
    return {**model, "manual_traces": str(folder / traces)}


def read_config_section(benchmark: BenchmarkContent) -> dict[str, Any]:
    """Return the settings in a benchmark's `config` section by full name. Relative paths and programs in it are
    resolved against the folder of the benchmark's file.
    """
    from karenina_core.config import all_settings

    folder = benchmark.path.parent if benchmark.path is not None else Path()
    owned, holding = all_settings(), model_settings()
    return {
        name: map_models(value, lambda model: _resolve_programs(model, folder))
        if name in holding
        else str(folder / value)
        if isinstance(value, str) and name in owned and owned[name].allowed_in_files == "below"
        else value
        for name, value in resolve_recordings(benchmark.run_config, benchmark.path).items()
    }


def _resolve_programs(model: Any, folder: Path) -> Any:
    """Return the model with its paths resolved against `folder`: MCP server commands, and settings of its adapter that
    are paths.
    """
    if not isinstance(model, Mapping):
        return model
    resolved = dict(model)
    servers, extra = model.get("mcp_urls_dict"), model.get("extra")
    if isinstance(servers, Mapping):
        resolved["mcp_urls_dict"] = {name: _resolve_command(command, folder) for name, command in servers.items()}
    if isinstance(extra, Mapping):
        paths = _path_settings(model.get("interface"))
        resolved["extra"] = {
            name: str((folder / value).absolute()) if name in paths and isinstance(value, str) else value
            for name, value in extra.items()
        }
    return resolved


def _path_settings(interface: Any) -> frozenset[str]:
    """Return the names of the adapter's own settings that are paths, or an empty set if it is not installed."""
    from karenina_core import plugins
    from karenina_core.errors import PluginError
    from karenina_toolkit.plugin_lookup import find_adapter

    try:
        kind = find_adapter(plugins.active_plugins(), str(interface)).spec.extra
    except PluginError:  # the run reports the missing adapter
        return frozenset()
    fields = kind.model_fields.items() if kind is not None else ()
    return frozenset(name for name, info in fields if Path in (info.annotation, *get_args(info.annotation)))


def _resolve_command(command: Any, folder: Path) -> Any:
    """Return a server's command with the path of its program resolved against `folder`. Programs on the PATH, URLs, and
    commands that cannot be parsed are returned unchanged.
    """
    if not isinstance(command, str) or "://" in command:
        return command
    try:
        program, *arguments = shlex.split(command)
    except ValueError:  # empty, or an open quote: the plugin that starts the program reports it
        return command
    if "/" not in program or Path(program).is_absolute() or program.startswith("${"):
        return command
    return shlex.join([str((folder / program).absolute()), *arguments])
