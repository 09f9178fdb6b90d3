"""Translation of configuration names that the reference has and this implementation does not.

Each translation is logged. The reference's presets hold every setting, so a value that equals the reference's default
is dropped without a note: it requests nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from karenina_core.config.setting_owners import PREFIX

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
"""The reference's settings that have no setting of the same name here, with the values that request nothing."""
_NULLABLE: Final = ("few_shot_config", "prompt_config", "rubric_trait_names", "rubric_evaluation_strategy")
"""Settings of both implementations for which the reference writes null and here "not given" is meant."""
_CURES: Final = {
    "presets_dir": "give a preset as a file (--config FOLDER/NAME.json)",
    "db_config": "results are in files, and `karenina export` writes tables",
    "expose_ground_truth": "no judge sees a truth",
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

logger = logging.getLogger("karenina")


def translate_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings under the names of this implementation, and log what was translated or left out."""
    found = {name: value for name, value in values.items() if not (value is None and name in _NULLABLE)}
    found = {_VARIABLES.get(name, name): value for name, value in found.items()}
    for name in [name for name in found if name in _DEFAULTS]:
        value = found.pop(name)
        if any(value == default and type(value) is type(default) for default in _DEFAULTS[name]):
            continue
        new = _SETTINGS[name](value) if name in _SETTINGS else {}
        kept = {key: one for key, one in new.items() if key not in values}
        found |= kept
        _note(name, _describe(kept), "" if kept else _CURES.get(name, ""), bool(new))
    for name in _MODELS:
        if isinstance(found.get(name), (list, tuple)):
            found[name] = [_translate_model(model) if isinstance(model, Mapping) else model for model in found[name]]
    if isinstance(prompts := found.get("prompt_config"), Mapping):
        found["prompt_config"] = {task: text for task, text in prompts.items() if text is not None}
    return found


def _describe(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in values.items())


@cache
def _note(name: str, new: str, cure: str, replaced: bool) -> None:
    """Log, once per process, how a name of the reference was handled."""
    if new:
        logger.warning("the reference's %s is translated to %s", name, new)
    elif replaced:
        logger.warning("the reference's %s has no effect, because the setting that replaces it is given too", name)
    else:
        logger.warning("the reference's %s has no counterpart and no effect%s", name, f": {cure}" if cure else "")


def _number(name: str) -> Callable[[Any], dict[str, Any]]:
    def translate(value: Any) -> dict[str, Any]:
        return {name: int(value) if isinstance(value, str) and value.strip().isdecimal() else value}

    return translate


def _limits(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {"model_concurrency": dict(value)}
    return {"max_concurrency": value}


def _retries(value: Any) -> dict[str, Any]:
    names = {"connection": "connection", "timeout": "timeout", "rate_limit": "rate_limit", "server_error": "server"}
    policy = value if isinstance(value, Mapping) else {}
    return {
        f"retry_{new}": policy[old]["max_attempts"]
        for old, new in names.items()
        if isinstance(policy.get(old), Mapping) and "max_attempts" in policy[old]
    }


_SETTINGS: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "async_enabled": lambda _value: {"max_concurrency": 1},
    "async_max_workers": _number("max_concurrency"),
    "max_concurrent_requests": _number("max_concurrency"),
    "answerer_concurrency_limits": _limits,
    "batch_timeout_seconds": lambda value: {"run_timeout": value},
    "retry_policy": _retries,
    "rubric_enabled": lambda _value: {"evaluation_mode": "template_and_rubric"},
}


def _translate_model(model: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in model.items() if key not in _MODEL_DEFAULTS}
    notes: list[str] = []
    if "id" not in found and isinstance(model.get("model_name"), str):
        found["id"] = model["model_name"]
    for name, defaults in _MODEL_DEFAULTS.items():
        if name not in model or any(model[name] == default for default in defaults):
            continue
        new = f"endpoint_{name.removeprefix('anthropic_')}"
        turns = model[name].get("limits") if name == "agent_middleware" and isinstance(model[name], Mapping) else None
        if name.startswith("anthropic_") and not found.get(new):
            found[new] = model[name]
            notes.append(f"{name} is {new}")
        elif isinstance(turns, Mapping) and isinstance(turns.get("model_call_limit"), int):
            found["agent_max_turns"] = turns["model_call_limit"]
            notes.append(f"agent_middleware.limits.model_call_limit is agent_max_turns = {found['agent_max_turns']}")
            notes += ["the rest of agent_middleware has no effect"] if len(model[name]) > 1 else []
        else:
            notes.append(f"{name} has no effect" + (": adapter settings go into `extra`" if "extra" in name else ""))
    if notes:
        _note_model(str(found.get("id")), "; ".join(notes))
    return found


@cache
def _note_model(id: str, notes: str) -> None:
    """Log, once per process, how a model's settings were handled."""
    logger.warning("model %s of the reference: %s", id, notes)
