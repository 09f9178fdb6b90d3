"""Settings whose values are models, with their command-line options and their roles in messages.

A setting contains models if its type is `ModelConfig`, a list or tuple of them, or one of these or None. Any settings
model may declare such a setting:

    simulated_user: ModelConfig | None = Field(
        default=None, description="The model that plays the user", json_schema_extra={"option": "--user"}
    )

Commands that take models then have the option `--user`. A setting of the type `str | None` may declare one, too. The
setting's models are checked, limited, priced and stored without secrets like the core's models. They are also
restricted in files in the same way, whatever mark the setting has.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args, get_origin

from karenina_core.config import all_settings
from karenina_core.config.setting_owners import settings_models
from karenina_core.models.model import ModelConfig
from karenina_core.models.settings_models import AllowedInFiles, declared, mark_of
from karenina_core.plugins import active_plugins

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core.config import Setting, VerificationConfig

logger = logging.getLogger("karenina")

_OPTION: Final = re.compile(r"--[a-z][a-z0-9-]*|-[A-Za-z]")


class ModelSetting(NamedTuple):
    """A setting whose value is a model, or several models if `several` is set.

    `role` describes the models in messages, such as "judge". `options` contains the names of the command-line option,
    such as `--judge` and `-j`. It is empty if the setting can only be set in configurations.
    """

    name: str
    owner: str
    role: str
    options: tuple[str, ...]
    several: bool
    meaning: str

    @property
    def shortest_option(self) -> str | None:
        """The shortest name of the option, or None if there is no option."""
        return min(self.options, key=len, default=None)


def model_settings() -> dict[str, ModelSetting]:
    """Return all settings that contain models, by name, the core's first. Logs a warning if another setting declares an
    option of its own but takes no text. Raises `ConfigError` if two settings models own the same name.
    """
    return dict(_model_settings(*settings_models(active_plugins())))


@lru_cache(maxsize=8)  # a run asks twelve times
def _model_settings(*_models: tuple[type[BaseModel], str]) -> dict[str, ModelSetting]:
    """Return the settings that contain models, by full name, cached by the settings models of the active plugins,
    `_models`. Logs a warning for a setting that declares an option although it contains no model.
    """
    held: dict[str, ModelSetting] = {}
    for name, setting in all_settings().items():
        if holds_models(setting.info.annotation):
            held[name] = _describe(setting)
        elif declared(setting.info, "option") and not _is_text(setting.info.annotation):
            kind = "its type is neither a model nor `str | None`"
            _warn_once(f"the setting {name} of {setting.owner} has no option of its own: {kind}")
    return held


def text_settings() -> dict[str, ModelSetting]:
    """Return all settings that declare an option and take a text, by name, in the form of settings with one model.
    Raises `ConfigError` if two settings models own the same name.
    """
    return {
        name: _describe(setting)
        for name, setting in all_settings().items()
        if declared(setting.info, "option") and _is_text(setting.info.annotation)
    }


def configured_models(config: VerificationConfig) -> list[tuple[str, ModelConfig]]:
    """Return a (role, model) pair for each model in the configuration, in the order of the settings."""
    return [
        (setting.role, model)
        for name, setting in model_settings().items()
        if config.has(name)
        for model in models_in(config.setting(name))
    ]


def models_in(value: Any) -> list[Any]:
    """Return the models in `value`, the value of a setting that contains models."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def map_models(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a setting's value, which may be a model, a list of models or None, with the result of `change` in place of
    each model.
    """
    if value is None:
        return None
    return [change(model) for model in value] if isinstance(value, (list, tuple)) else change(value)


def options_of(extra: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the option names in a setting's `json_schema_extra`, where `option` is one string or several. Raises
    `ValueError` if a name is neither a hyphen with a letter nor two hyphens with a word.
    """
    given = (extra or {}).get("option", ())
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str) or not _OPTION.fullmatch(name):
            raise ValueError(f"an option must have the form --name or -n, not {name!r}")
    return names


def holds_models(annotation: Any) -> bool:
    """Return whether a type is `ModelConfig`, a list or tuple of them, or a union of such types and None."""
    parts = [part for part in get_args(annotation) if part not in (type(None), Ellipsis)]
    if not parts:
        return isinstance(annotation, type) and issubclass(annotation, ModelConfig)
    return get_origin(annotation) is not dict and all(map(holds_models, parts))


def allowed_in_files(setting: Setting) -> AllowedInFiles:
    """Return which values of a setting a file may contain without the user's trust. For a setting that contains models,
    this is "models", which means that each field of a model is checked, unless the setting is marked as `never`.
    """
    if holds_models(setting.info.annotation) and mark_of(setting.model, setting.field) != "never":
        return "models"
    return setting.allowed_in_files


def _describe(setting: Setting) -> ModelSetting:
    """Return the description of a setting that contains models or takes a text. If its option is malformed, log a
    warning and leave it out.
    """
    extra = setting.info.json_schema_extra
    try:
        options = options_of(extra if isinstance(extra, Mapping) else None)
    except ValueError as error:
        _warn_once(f"the setting {setting.name} of {setting.owner} has no option of its own: {error}; use --set or -c")
        options = ()
    role = declared(setting.info, "role") or setting.field.replace("_", " ")
    return ModelSetting(
        setting.name, setting.owner, str(role), options, _takes_several(setting.info.annotation), setting.meaning
    )


@cache
def _warn_once(text: str) -> None:
    """Log a warning, once per process."""
    logger.warning("%s", text)


def _is_text(annotation: Any) -> bool:
    """Return whether a type is `str`, or `str` or None."""
    return annotation is str or {*get_args(annotation)} == {str, type(None)}


def _takes_several(annotation: Any) -> bool:
    """Return whether the type of a setting that contains models is, or includes, a list or tuple."""
    kind = get_origin(annotation)
    return kind in (list, tuple) or any(map(_takes_several, get_args(annotation)))
