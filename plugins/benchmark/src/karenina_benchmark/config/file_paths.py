"""The paths in a configuration file or section, which are relative to its folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from karenina_benchmark.content import BenchmarkContent


def resolve_recordings(table: Mapping[str, Any], file: Path | None) -> dict[str, Any]:
    """Return `table` with the relative paths of recordings resolved against the folder of the file."""
    folder = file.parent if file is not None else Path()
    return {
        name: [_resolve_recording(model, folder) for model in value]
        if name in ("answering_models", "parsing_models") and isinstance(value, list)
        else value
        for name, value in table.items()
    }


def _resolve_recording(model: Any, folder: Path) -> Any:
    traces = model.get("manual_traces") if isinstance(model, Mapping) else None
    if not isinstance(traces, str) or Path(traces).is_absolute():
        return model
    return {**model, "manual_traces": str(folder / traces)}


def read_config_section(benchmark: BenchmarkContent) -> dict[str, Any]:
    """Return the `config` section of a benchmark with its relative paths and programs below the file's folder."""
    from karenina_core.config import all_settings, flatten_settings

    folder = benchmark.path.parent if benchmark.path is not None else Path()
    owned = all_settings()
    return {
        name: str(folder / value)
        if isinstance(value, str) and name in owned and owned[name].allowed_in_files == "below"
        else [_resolve_programs(model, folder) for model in value]
        if name in ("answering_models", "parsing_models") and isinstance(value, list)
        else value
        for name, value in flatten_settings(resolve_recordings(benchmark.run_config, benchmark.path)).items()
    }


def _resolve_programs(model: Any, folder: Path) -> Any:
    """Return a model with relative paths to programs and files resolved against `folder`.

    These are the commands of MCP servers, and the adapter settings that are declared as paths.
    """
    if not isinstance(model, Mapping):
        return model
    found = dict(model)
    servers, extra = model.get("mcp_urls_dict"), model.get("extra")
    if isinstance(servers, Mapping):
        found["mcp_urls_dict"] = {name: _resolve_command(command, folder) for name, command in servers.items()}
    if isinstance(extra, Mapping):
        paths = _path_settings(model.get("interface"))
        found["extra"] = {
            name: str((folder / value).absolute()) if name in paths and isinstance(value, str) else value
            for name, value in extra.items()
        }
    return found


def _path_settings(interface: Any) -> frozenset[str]:
    """Return the names of the adapter's own settings that are paths."""
    from karenina_core import plugins
    from karenina_core.config import find_adapter
    from karenina_core.errors import PluginError

    try:
        kind = find_adapter(plugins.active_plugins(), str(interface)).spec.extra
    except PluginError:  # the run reports the missing adapter
        return frozenset()
    fields = kind.model_fields.items() if kind is not None else ()
    return frozenset(name for name, info in fields if Path in (info.annotation, *get_args(info.annotation)))


def _resolve_command(command: Any, folder: Path) -> Any:
    if not isinstance(command, str) or "://" in command:
        return command
    try:
        program, *arguments = shlex.split(command)
    except ValueError:  # empty, or an open quote: the plugin that starts it reports it
        return command
    if "/" not in program or Path(program).is_absolute() or program.startswith("${"):
        return command
    return shlex.join([str((folder / program).absolute()), *arguments])
