"""Presets: configurations that a user saved under a name, for `--config NAME`.

They are JSON files without keys in the folder `presets` of the user's configuration, which only the user can write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig

_SUFFIX: Final = ".json"


def presets_folder() -> Path:
    """Return the folder of the presets, which may not exist."""
    from karenina_engine.user.trust_store import trust_path

    return trust_path().parent / "presets"


def list_presets() -> dict[str, Path]:
    """Return the file of each preset by its name, sorted."""
    return {path.stem: path for path in sorted(presets_folder().glob(f"*{_SUFFIX}"))}


def preset_path(name: str) -> Path:
    """Return the file of a preset that exists. Raises `ConfigError` with the nearest name."""
    from karenina_core.errors import ConfigError
    from karenina_core.text import did_you_mean

    found = list_presets()
    if name not in found:
        raise ConfigError([f"there is no preset {name!r}{did_you_mean(name, found)}"])
    return found[name]


def save_preset(name: str, config: VerificationConfig, names: Collection[str]) -> Path:
    """Save those values of `config` that are in `names` as a preset, replacing an earlier one, and return its file.

    Secrets are left out with a warning. Raises `ConfigError`.
    """
    from pydantic_core import PydanticSerializationError, to_json

    from karenina_benchmark.config.config_files import values_to_save, warn_of_secrets
    from karenina_core.errors import ConfigError
    from karenina_engine.user.private_files import locked
    from karenina_toolkit.files import replace_file
    from karenina_toolkit.files.file_names import is_plain_name

    if not is_plain_name(name) or Path(name).suffix:
        raise ConfigError([f"{name!r} cannot be the name of a preset: use letters, digits, '_' and '-'"])
    values, left_out = values_to_save(config)
    kept = {key: _with_absolute_paths(key, value) for key, value in values.items() if key in names}
    path = presets_folder() / f"{name}{_SUFFIX}"
    try:
        with locked(path):
            replace_file(path, lambda file: file.write(to_json(kept, indent=2)), private=True)
    except (PydanticSerializationError, OSError) as error:
        raise ConfigError([f"the preset cannot be saved in {path}: {error}"]) from error
    warn_of_secrets(path, [place for place in left_out if place.partition(".")[0] in names])
    return path


def delete_preset(name: str) -> Path:
    """Delete a preset, and return its file. Raises `ConfigError` if there is none, or if it cannot be deleted."""
    from karenina_core.errors import ConfigError

    path = preset_path(name)
    try:
        path.unlink()
    except OSError as error:
        raise ConfigError([f"the preset {path} cannot be deleted: {error.strerror or error}"]) from error
    return path


def _with_absolute_paths(name: str, value: Any) -> Any:
    """Return the value of a setting with absolute paths of recordings, which would be relative to the preset's file."""
    if name != "answering_models":
        return value
    return [_with_absolute_recording(model) for model in value]


def _with_absolute_recording(model: Mapping[str, Any]) -> dict[str, Any]:
    traces = model.get("manual_traces")
    return {**model, **({"manual_traces": str(Path(traces).absolute())} if isinstance(traces, str) else {})}
