"""The engine's settings: limits, retries, budget and prices, executor and journal.

Setting names of the reference implementation are translated, and each translation is logged. The reference
implementation's presets contain every setting, so values that are equal to its defaults are dropped silently.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationInfo, field_validator

from karenina_core.config.setting_owners import PREFIX
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import ErrorCategory
from karenina_core.models.settings_models import AllowedInFiles
from karenina_core.text import did_you_mean
from karenina_engine.calls.concurrency import Concurrency
from karenina_engine.calls.retry import DEFAULT_MAX_RETRIES, RetryPolicy
from karenina_engine.cost.price_source import OwnPrice
from karenina_engine.model_settings import model_settings, models_in

_NO_CHANGE: Final[dict[str, JsonValue]] = {"changes_results": False}
_NOT_FROM_FILES: Final[dict[str, JsonValue]] = {"changes_results": False, "allowed_in_files": "never"}

_VARIABLES: Final = {
    f"{PREFIX}ASYNC_ENABLED": "async_enabled",
    f"{PREFIX}ASYNC_MAX_WORKERS": "async_max_workers",
    f"{PREFIX}MAX_CONCURRENT_LLM_REQUESTS": "max_concurrent_requests",
    f"{PREFIX}PRESETS_DIR": "presets_dir",
    f"{PREFIX}EXPOSE_GROUND_TRUTH": "expose_ground_truth",
    f"{PREFIX}TRACE_TRUNCATION_THRESHOLD": "trace_truncation_threshold",
}
_DEFAULTS: Final[dict[str, Sequence[Any]]] = {
    "async_enabled": (True, "true", "1"),
    "async_max_workers": (2,),
    "max_concurrent_requests": (None,),
    "answerer_concurrency_limits": (None,),
    "batch_timeout_seconds": (None,),
    "retry_policy": (None, {}),
    "rubric_enabled": (False,),
    "task_ordering": (None, "auto"),
    "custom_error_patterns": (None, []),
    "max_requeue_count": (5,),
    "db_config": (None,),
    "scenario_turn_limit": (20,),
    "allow_partial_trace_scoring": (True,),
    "replay_store": (None,),
    "skip_triples": (None,),
    "replay_parse_on_hydration_mismatch": ("fall_through",),
    "agentic_parsing_trigger": ("always",),
    "agentic_parsing_materialize_trace": (False,),
    "agentic_parsing_persist_trace": (False,),
    "agentic_rubric_strategy": (None, "individual"),
    "agentic_rubric_parallel": (False,),
    "workspace_output_mode": ("none",),
    "workspace_output_dir": (None,),
    "workspace_output_exclude_patterns": (None, []),
    "few_shot_enabled": (False,),
    "few_shot_mode": ("all",),
    "few_shot_k": (3,),
    "presets_dir": (),
    "expose_ground_truth": (False, "false", "0", ""),
    "trace_truncation_threshold": (),
}
"""Settings that only the reference implementation has, with the values that have no effect."""
_NULLABLE: Final = ("few_shot_config", "prompt_config", "rubric_trait_names", "rubric_evaluation_strategy")
"""Settings of both implementations for which the reference implementation writes null if they are not set."""
_CURES: Final = {
    "presets_dir": "specify a preset as a file (--config FOLDER/NAME.json)",
    "db_config": "results are stored in files, and `karenina export` writes tables",
    "expose_ground_truth": "judges never see the ground truth",
    "few_shot_enabled": "set few_shot_config",
    "few_shot_mode": "set few_shot_config",
    "few_shot_k": "set few_shot_config",
    "skip_triples": "use --skip-done",
    "replay_store": "use a journal",
}
_MODELS: Final = ("answering_models", "parsing_models")
_MODEL_DEFAULTS: Final[dict[str, Sequence[Any]]] = {
    "max_retries": (None, 2),
    "max_context_tokens": (None,),
    "mcp_http_timeout": (None,),
    "mcp_sse_read_timeout": (None,),
    "agent_runtime": (None,),
    "agent_middleware": (None,),
    "retry_policy": (None, {}),
    "extra_kwargs": (None, {}),
    "anthropic_base_url": (None, ""),
    "anthropic_api_key": (None, ""),
}
_MODEL_CURES: Final = {
    "extra_kwargs": " (adapter settings go into `extra`)",
    "agent_runtime": " (--sandbox chooses where an agent's commands run)",
}

logger = logging.getLogger("karenina")


def translate_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with names and values of settings of the reference implementation translated, including the
    fields of models. Its default values and settings without a counterpart are dropped. A setting that is also given
    under its own name keeps that value. What was translated or has no effect is logged once per process.
    """
    translated = {name: value for name, value in values.items() if not (value is None and name in _NULLABLE)}
    translated = {_VARIABLES.get(name, name): value for name, value in translated.items()}
    for name in [name for name in translated if name in _DEFAULTS]:
        value = translated.pop(name)
        if any(value == default and type(value) is type(default) for default in _DEFAULTS[name]):
            continue
        new = _SETTINGS[name](value) if name in _SETTINGS else {}
        added = {key: setting for key, setting in new.items() if key not in values}
        translated |= added
        _note(name, _describe(added), "" if added else _CURES.get(name, ""), bool(new))
    for name in _MODELS:
        if isinstance(translated.get(name), (list, tuple)):
            translated[name] = [
                _translate_model(model) if isinstance(model, Mapping) else model for model in translated[name]
            ]
    if isinstance(prompts := translated.get("prompt_config"), Mapping):
        translated["prompt_config"] = {task: text for task, text in prompts.items() if text is not None}
    return translated


def _describe(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in values.items())


@cache
def _note(name: str, new: str, cure: str, replaced: bool) -> None:
    """Log, once per process, that the setting `name` of the reference implementation was translated to the settings in
    `new`. If `new` is empty, log that those settings were given too (`replaced`), or else that there are none, with the
    advice in `cure`.
    """
    if new:
        logger.warning("the reference implementation's setting %s was translated to %s", name, new)
    elif replaced:
        logger.warning(
            "the reference implementation's setting %s has no effect because the setting that replaces it is also "
            "given",
            name,
        )
    else:
        logger.warning(
            "the reference implementation's setting %s has no counterpart and no effect%s",
            name,
            f"; {cure}" if cure else "",
        )


def _translate_number(name: str) -> Callable[[Any], dict[str, Any]]:
    """Return a function that translates a value to the setting `name`. Strings of digits become integers."""

    def translate(value: Any) -> dict[str, Any]:
        """Return the value under `name`. A string of digits becomes an integer."""
        return {name: int(value) if isinstance(value, str) and value.strip().isdecimal() else value}

    return translate


def _translate_limits(value: Any) -> dict[str, Any]:
    """Return limits by model as `model_concurrency`, or a single limit as `max_concurrency`. The value is not
    checked.
    """
    if isinstance(value, Mapping):
        return {"model_concurrency": dict(value)}
    return {"max_concurrency": value}


def _translate_retries(value: Any) -> dict[str, Any]:
    """Return the settings for the numbers of retries in the reference implementation's retry policy. Its delays and
    other categories are dropped.
    """
    names = {"connection": "connection", "timeout": "timeout", "rate_limit": "rate_limit", "server_error": "server"}
    policy = value if isinstance(value, Mapping) else {}
    return {
        f"retry_{new}": policy[old]["max_attempts"]
        for old, new in names.items()
        if isinstance(policy.get(old), Mapping) and "max_attempts" in policy[old]
    }


_SETTINGS: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "async_enabled": lambda _value: {"max_concurrency": 1},
    "async_max_workers": _translate_number("max_concurrency"),
    "max_concurrent_requests": _translate_number("max_concurrency"),
    "answerer_concurrency_limits": _translate_limits,
    "batch_timeout_seconds": lambda value: {"run_timeout": value},
    "retry_policy": _translate_retries,
    "rubric_enabled": lambda _value: {"evaluation_mode": "template_and_rubric"},
    "workspace_output_mode": lambda value: {"workspace_keep": "all" if value in ("all", "full") else "patch"},
}


def _translate_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's values with the field names of the reference implementation translated and its default values
    dropped, and log which names were translated or have no effect. A model without an id gets its model name as its id.
    """
    translated = {key: value for key, value in model.items() if key not in _MODEL_DEFAULTS}
    notes: list[str] = []
    if "id" not in translated and isinstance(model.get("model_name"), str):
        translated["id"] = model["model_name"]
    for name, defaults in _MODEL_DEFAULTS.items():
        if name not in model or any(model[name] == default for default in defaults):
            continue
        new = f"endpoint_{name.removeprefix('anthropic_')}"
        turns = model[name].get("limits") if name == "agent_middleware" and isinstance(model[name], Mapping) else None
        if name.startswith("anthropic_") and not translated.get(new):
            translated[new] = model[name]
            notes.append(f"{name} was translated to {new}")
        elif isinstance(turns, Mapping) and isinstance(turns.get("model_call_limit"), int):
            translated["agent_max_turns"] = turns["model_call_limit"]
            notes.append(
                "agent_middleware.limits.model_call_limit was translated to agent_max_turns = "
                f"{translated['agent_max_turns']}"
            )
            notes += ["the rest of agent_middleware has no effect"] if len(model[name]) > 1 else []
        else:
            notes.append(f"{name} has no effect{_MODEL_CURES.get(name, '')}")
    if notes:
        _note_model(str(translated.get("id")), "; ".join(notes))
    return translated


@cache
def _note_model(id: str, notes: str) -> None:
    """Log, once per process, how a model's settings were handled."""
    logger.warning("model %s of the reference implementation: %s", id, notes)


def _no_change(default: object, description: str, **bounds: Any) -> Any:
    """Return the field for a setting that never changes a result. `bounds` are arguments to `Field`, such as `ge`."""
    return Field(default=default, description=description, json_schema_extra=_NO_CHANGE, **bounds)


class EngineSettings(BaseModel, defer_build=True):
    """The engine's settings: limits, retries, budget and prices, executor and journal."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    translate: ClassVar[Callable[[Mapping[str, Any]], dict[str, Any]]] = staticmethod(translate_names)
    model_config = ConfigDict(frozen=True, protected_namespaces=())

    item_timeout: float | None = _no_change(
        None,
        "Time limit for one item in seconds, including its answer and all waiting, except for the work of other items; "
        "items that take longer are errors.",
        gt=0,
    )
    run_timeout: float | None = _no_change(
        None, "Time limit for the run in seconds; at that point the run stops and keeps the finished items.", gt=0
    )
    max_concurrency: int | None = _no_change(None, "Maximum number of calls in flight across all models.", ge=1)
    model_concurrency: dict[str, Annotated[int, Field(ge=1)]] = _no_change(
        {}, "Fixed numbers of calls in flight, keyed by model id; the limits of other models adapt."
    )
    concurrency_start: int | None = _no_change(
        None,
        "Number of calls in flight with which a model starts; by default, the number that its adapter declares, or 32.",
        ge=1,
    )
    concurrency_ceiling: int = _no_change(
        256, "Maximum number of calls in flight for a model whose adapter declares no limit.", ge=1
    )
    executor: str = Field(
        default="asyncio",
        description="How items are run: asyncio uses one event loop in this process; plugins add other executors.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    retry_connection: int = _no_change(2, "Retries of a call after a failed connection.", ge=0)
    retry_timeout: int = _no_change(1, "Retries of a call after a timeout.", ge=0)
    retry_rate_limit: int = _no_change(8, "Retries of a call after a rate limit; 0 makes the call fail.", ge=0)
    retry_server: int = _no_change(4, "Retries of a call after a server error.", ge=0)
    retry_patience: float = _no_change(
        300.0,
        "Maximum total time in seconds that a call may wait between attempts, and that a server may refuse every call.",
        ge=0,
    )
    budget: Decimal | None = Field(
        default=None,
        ge=0,
        decimal_places=6,
        description="Maximum amount in US dollars that all runs of a journal may spend together; at that point the "
        "run stops.",
        json_schema_extra={"changes_results": False},
    )
    prices: dict[str, OwnPrice] = Field(
        default={},
        description="Your own prices keyed by model id or name, in US dollars per million tokens (input, output, ...).",
        json_schema_extra=_NOT_FROM_FILES,
    )
    journal_sync: Literal["normal", "full"] = Field(
        default="normal",
        description="What a power failure can lose: with normal, the most recent replies, which must then be paid for "
        "again; with full, nothing, but each commit waits for the disk.",
        json_schema_extra={"changes_results": False, "allowed_in_files": "any"},
    )

    full_results: bool = Field(
        default=False,
        description="Write all fields of each result to the result file, so that each line can be read on its own; "
        "the file is then about five times as large.",
        json_schema_extra=_NO_CHANGE,
    )
    kept_file_bytes: int = Field(
        default=20_000_000,
        ge=0,
        description="Maximum size in bytes of a file that a stage or an adapter keeps for an item; larger files are "
        "left out.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    kept_files_bytes: int = Field(
        default=1_000_000_000,
        ge=0,
        description="Maximum total size in bytes of the files that a run keeps; further files are left out.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    partial_recordings: bool = _no_change(
        False,
        "Run even if some questions have no recorded answer (their items become errors) or some recordings "
        "match no question.",
    )

    @field_validator("model_concurrency")
    @classmethod
    def _models_exist(cls, value: dict[str, int], info: ValidationInfo) -> dict[str, int]:
        """Return the limits. Raises `ValueError` if one is for a model that is not configured. If no models are known,
        nothing is checked.
        """
        values = info.context or {}
        models = [model for name in model_settings() for model in models_in(values.get(name))]
        ids = [str(model.get("id")) for model in models if isinstance(model, Mapping)]  # of settings not checked yet
        ids += [model.id for model in models if isinstance(model, ModelConfig)]
        for id in value:
            if ids and id not in ids:
                raise ValueError(f"no model has the id {id!r}{did_you_mean(id, ids)}")
        return value

    def concurrency(self) -> Concurrency:
        """Return the limits on calls in flight, as set by `max_concurrency` and related settings."""
        return Concurrency(
            self.concurrency_start, self.concurrency_ceiling, self.model_concurrency, self.max_concurrency
        )

    def retry_policy(self) -> RetryPolicy:
        """Return the retry policy, as set by `retry_connection` and related settings."""
        max_retries = {
            **DEFAULT_MAX_RETRIES,
            ErrorCategory.CONNECTION: self.retry_connection,
            ErrorCategory.TIMEOUT: self.retry_timeout,
            ErrorCategory.RATE_LIMIT: self.retry_rate_limit,
            ErrorCategory.SERVER: self.retry_server,
        }
        return RetryPolicy(max_retries=max_retries, patience=self.retry_patience)
