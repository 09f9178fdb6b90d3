"""The configuration of a command. Arguments override the environment, the file and the benchmark."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from karenina_cli.input.model_options import ModelOptions, parse_models

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark, BenchmarkContent
    from karenina_benchmark.config.config_files import ConfigLayers
    from karenina_core.config import VerificationConfig

logger = logging.getLogger("karenina")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")


def read_configuration(
    benchmark: BenchmarkContent | None,
    file: Path | None,
    settings: Sequence[str] | None,
    *,
    models: ModelOptions | None = None,
    recordings: Sequence[Path] | None = None,
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> VerificationConfig:
    """Read a command's configuration from all its sources, and return it, with the names of settings that come from the
    benchmark in `benchmark_names`. Later sources override earlier ones: the benchmark's `config` section, `file`, the
    environment, `models`, `recordings`, the `--set` settings in `settings`, and `options`. Raises `typer.BadParameter`
    if an option is invalid, and `ConfigError`, which states the origin of each problem, if settings are invalid or
    files cannot be read, or if a value is only allowed on the command line.

    `options` maps each of the command's options, such as `--budget`, to the settings that it sets. A relative path in
    `manual_traces` is relative to the file that contains it, or to the working directory if it comes from the command
    line.
    """
    from karenina_benchmark.config.config_files import (
        ConfigLayers,
        read_config_section,
        read_config_values,
        resolve_recordings,
    )
    from karenina_core.config import read_environment

    layers = ConfigLayers()
    of_benchmark = f"the config section of {benchmark.path if benchmark is not None else None}"
    if benchmark is not None and benchmark.run_config:
        layers.add(read_config_section(benchmark), of_benchmark)
    if file is not None:
        layers.add(resolve_recordings(read_config_values(file), file), str(file))
    layers.add(dict(read_environment()), "the environment")
    given = models if models is not None else ModelOptions()
    for name, value in given.values(recordings or ()).items():
        layers.add({name: value}, given.origins().get(name, "--recordings"))
    _warn_of_replaced(settings or ())
    for setting in settings or ():
        name, value = _parse_setting(setting, layers.values)
        merged = "." in setting.partition("=")[0] and layers.origin.get(name) == of_benchmark
        layers.add({name: value}, of_benchmark if merged else "--set")
    for option, values in (options or {}).items():
        layers.add(dict(values), option)
    config = layers.make_config()
    _check_command_line_only(layers, of_benchmark)
    return config.with_benchmark_names(layers.names_from(of_benchmark))


def _check_command_line_only(layers: ConfigLayers, of_benchmark: str) -> None:
    """Raise `ConfigError` if a file or the environment sets a value that is only allowed on the command line. Values of
    the benchmark, whose origin is `of_benchmark`, are not checked here.

    A setting declares such values with `json_schema_extra={"command_line_only": [...]}`. What a benchmark may set is
    checked before its run.
    """
    from karenina_core.config import all_settings
    from karenina_core.errors import ConfigError
    from karenina_core.models.settings_models import declared

    problems = []
    for name, value in layers.values.items():
        setting, origin = all_settings().get(name), layers.origin[name]
        if setting is None or origin.startswith("--") or origin == of_benchmark:
            continue
        if value in (declared(setting.info, "command_line_only") or ()):
            option = declared(setting.info, "option") or f"--set {name}={value}"
            given = option if "=" in option else f"{option} {value} (or --set {name}={value})"
            problems.append(
                f"{origin} sets {name} = {value}, which only takes effect on the command line; remove it there, and "
                f"add {given} to the command"
            )
    if problems:
        raise ConfigError(problems)


def with_settings(config: VerificationConfig, settings: Sequence[str] | None) -> VerificationConfig:
    """Return a copy of the configuration with the `--set` settings applied. Raises `typer.BadParameter` if a setting is
    malformed, and `ConfigError` if its name is unknown or its value invalid.
    """
    values = dict(config.given())
    _warn_of_replaced(settings or ())
    for setting in settings or ():
        name, value = _parse_setting(setting, values)
        values[name] = value
    return config.with_values(**values) if settings else config


def _warn_of_replaced(settings: Sequence[str]) -> None:
    """Log a warning about each `--set` option that replaces an earlier one. Malformed ones are ignored. Values are not
    shown because they may be API keys.
    """
    from karenina_core.config import all_settings

    names: list[str] = []
    for setting in settings:
        name, equals, _ = setting.partition("=")
        name = name.strip()
        if not equals or not _NAME.fullmatch(name):
            continue
        if name in names:
            logger.warning("--set %s was given more than once; the last value is used", name)
        keys = [key for key in names if key.startswith(f"{name}.") and key not in all_settings()]
        if keys:
            logger.warning("--set %s replaces the earlier --set %s; to keep both, reverse their order", name, keys[0])
        names.append(name)


def _check_has_value(setting: str) -> None:
    """Raise `typer.BadParameter` if `setting`, which contains no `=`, is the name of a setting."""
    from karenina_core.config import all_settings

    name = setting.strip()
    if name in all_settings():
        raise typer.BadParameter(f"--set {name} has no value; write --set {name}=VALUE")


def _parse_setting(setting: str, values: Mapping[str, Any]) -> tuple[str, Any]:
    """Parse `name=value`, and return the setting's name and value. For `table.key=value`, the value is a copy of the
    table in `values` with this key changed. Raises `typer.BadParameter` if the text is malformed or `values` has
    something other than a table.
    """
    from karenina_core.config import all_settings

    name, equals, text = setting.partition("=")
    name = name.strip()
    if not equals:
        _check_has_value(setting)
    if not equals or not _NAME.fullmatch(name):
        raise typer.BadParameter(
            "--set requires a name and a value; write --set name=value"
        )  # the text may contain a key
    top, dot, key = name.partition(".")
    if not dot or name in all_settings():
        return name, _parse_models_of(name, text)
    table = values.get(top)
    if table is not None and not isinstance(table, Mapping):
        raise typer.BadParameter(f"--set {name}=... cannot change a key of {top}, which is not a table")
    return top, {**(table or {}), key: _parse_value(name, text)}


def _parse_models_of(name: str, text: str) -> Any:
    """Parse the value in `--set name=text`. A setting whose value is a model also accepts a model's short form. Raises
    `typer.BadParameter` if the text is malformed.
    """
    from karenina_engine.model_settings import model_settings

    setting = model_settings().get(name)
    if setting is None or not text.strip() or text.lstrip()[0] in "[{\"'" or text.strip() == "null":
        return _parse_value(name, text)
    models = parse_models([text])
    return models if setting.several else models[0]


def _parse_value(name: str, text: str) -> Any:
    """Parse the value in `--set name=text`: the text itself for a setting that allows strings, and otherwise TOML as in
    a configuration file, JSON, or if it is neither, the text. Only text that starts like a table or list then raises
    `typer.BadParameter`.

    The message does not show the text, which may contain a key.
    """
    from karenina_core.config import all_settings, read_value

    def read(given: str) -> Any:
        """Parse TOML or JSON. Raises `typer.BadParameter` for an invalid table or list, and `ValueError` for any other
        text.
        """
        try:
            return _toml_or_json(given)
        except (ValueError, RecursionError) as error:
            if given.lstrip()[:1] in ("{", "["):
                what = "the value is neither valid TOML nor valid JSON; check its quotes and brackets"
                raise typer.BadParameter(f"--set {name}: {what}") from None
            raise ValueError("the value is a string") from error

    setting = all_settings().get(name)
    return read_value(text, setting.info.annotation if setting is not None else None, read)


def _toml_or_json(text: str) -> Any:
    """Parse TOML or JSON. Raises `ValueError` if the text is neither or is too large, and `RecursionError` if it is
    nested too deeply.
    """
    import json
    import tomllib

    from karenina_toolkit.files.json_values import find_problem

    try:
        table = tomllib.loads(f"value = {text}")
        value = table["value"] if len(table) == 1 else json.loads(text)
    except (ValueError, RecursionError):
        value = json.loads(text)
    if find_problem(value) is not None:
        raise ValueError("the value is too deeply nested or too large")
    return value


def select_ids(benchmark: Benchmark, wanted: Iterable[str] | None, limit: int | None) -> list[str]:
    """Return the ids of the questions to run: `wanted`, or all except drafts, but at most `limit`. Unknown ids are
    kept, because the run reports them. Raises `ConfigError` if all questions are drafts.
    """
    from karenina_engine.check.questions import default_ids

    ids = list(dict.fromkeys(wanted)) if wanted else list(default_ids(benchmark))
    return ids if limit is None else ids[:limit]
