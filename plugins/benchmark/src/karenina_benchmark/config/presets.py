"""Presets, which are configurations that a user has saved under a name for `--config NAME`.

Presets are JSON files without secrets in the `presets` folder of the user's configuration. Only the user can write to
this folder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig

_SUFFIX: Final = ".json"


def presets_folder() -> Path:
    """Return the folder for presets, which may not exist yet."""
    from karenina_engine.user_files import trust_path

    return trust_path().parent / "presets"


def list_presets() -> dict[str, Path]:
    """Return the files of all presets, keyed and sorted by name."""
    return {path.stem: path for path in sorted(presets_folder().glob(f"*{_SUFFIX}"))}


def preset_path(name: str) -> Path:
    """Return the file of a preset. Raises `ConfigError`, suggesting a similar name, if it does not exist."""
    from karenina_core.errors import ConfigError
    from karenina_core.text import did_you_mean

    presets = list_presets()
    if name not in presets:
        raise ConfigError([f"the preset {name!r} does not exist{did_you_mean(name, presets)}"])
    return presets[name]


def save_preset(name: str, config: VerificationConfig, names: Collection[str]) -> Path:
    """Save those of the settings in `names` that are explicitly set as a preset, and return its file. An existing
    preset is replaced. Secrets are omitted with a warning, and paths to recordings become absolute. Raises
    `ConfigError` if the name is invalid or the preset cannot be saved.
    """
    from pydantic_core import PydanticSerializationError, to_json

    from karenina_benchmark.config.config_files import values_to_save, warn_of_secrets
    from karenina_core.errors import ConfigError
    from karenina_engine.user_files import locked
    from karenina_toolkit.files import replace_file
    from karenina_toolkit.files.safe_paths import is_plain_name

    if not is_plain_name(name) or Path(name).suffix:
        raise ConfigError([f"{name!r} is not a valid preset name; use letters, digits, '_' and '-'"])
    values, left_out = values_to_save(config)
    saved = {key: _with_absolute_paths(key, value) for key, value in values.items() if key in names}
    path = presets_folder() / f"{name}{_SUFFIX}"
    try:
        with locked(path):
            replace_file(path, lambda file: file.write(to_json(saved, indent=2)), private=True)
    except (PydanticSerializationError, OSError) as error:
        raise ConfigError([f"cannot save the preset in {path}: {error}"]) from error
    warn_of_secrets(path, [place for place in left_out if any(place.startswith(f"{name}.") for name in names)])
    return path


def delete_preset(name: str) -> Path:
    """Delete a preset, and return the path of its file. Raises `ConfigError` if the preset does not exist or cannot be
    deleted.
    """
    from karenina_core.errors import ConfigError

    path = preset_path(name)
    try:
        path.unlink()
    except OSError as error:
        raise ConfigError([f"cannot delete the preset {path}: {error.strerror or error}"]) from error
    return path


def _with_absolute_paths(name: str, value: Any) -> Any:
    """Make the paths to recordings in a setting absolute, because they would otherwise be relative to the preset."""
    from karenina_engine.model_settings import map_models, model_settings

    return map_models(value, _with_absolute_recording) if name in model_settings() else value


def _with_absolute_recording(model: Mapping[str, Any]) -> dict[str, Any]:
    traces = model.get("manual_traces")
    return {**model, **({"manual_traces": str(Path(traces).absolute())} if isinstance(traces, str) else {})}
