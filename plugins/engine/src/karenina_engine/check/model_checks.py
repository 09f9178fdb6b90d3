"""Checks of a run's models before it starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from karenina_core.config import find_adapter
from karenina_core.errors import ConfigError, PluginError
from karenina_engine.calls.journal_labels import ModelLabel
from karenina_engine.calls.tool_sessions import find_tool_problems
from karenina_toolkit.http.urls import complete_url, redact_url

if TYPE_CHECKING:
    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins


def check_models(plugins: Plugins, models: Sequence[tuple[str, ModelConfig]], *, offline: bool = False) -> None:
    """Raise `ConfigError` for everything in the models that would make each item fail. No request is made.

    `models` are pairs of role (as messages name it) and model. `offline` says that none of them will be called, so that
    what their adapters need for calls (keys, packages) may be missing.
    """
    from pydantic import ValidationError

    problems: list[str] = []
    for role, model in models:
        where = f"{role} {model.id!r}"
        try:
            offered = find_adapter(plugins, model.interface)
        except PluginError as error:
            problems.append(f"{where}: {error}")
            continue
        spec = offered.spec
        if isinstance(model, ModelLabel):
            continue
        problems += [f"{where}: {problem}" for problem in _address_in_name(model, spec)]
        reason = spec.unavailable() if spec.unavailable is not None else None
        if reason is not None and not offline:
            problems.append(f"{where}: the adapter {spec.interface!r} is not available: {reason}")
            continue
        try:
            if spec.extra is not None:
                spec.extra.model_validate(model.extra)
            elif model.extra:
                names = ", ".join(sorted(model.extra))
                problems.append(
                    f"{where}: the adapter {spec.interface!r} has no extra settings: remove {names} from extra"
                )
            if spec.check is not None and not offline:
                spec.check(model)
        except ValidationError as error:
            problems += [
                f"{where}: extra.{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
                for problem in error.errors(include_url=False, include_input=False)
            ]
        except ValueError as error:
            named = f"model {model.id!r}"  # adapters name the model too
            problems.append(f"{where}: {str(error).removeprefix(f'{named}: ').removeprefix(f'{named}, ')}")
        problems += [f"{where}: {problem}" for problem in find_tool_problems(plugins, model, spec)]
    if problems:
        raise ConfigError(problems)


def _address_in_name(model: ModelConfig, spec: AdapterSpec) -> Iterator[str]:
    """Yield a problem if a name ends in a server's address: requests would go to the provider's own server."""
    name, _, address = model.model_name.rpartition("@")
    if not name or model.endpoint_base_url is not None or spec.recorded or spec.free:
        return
    url = complete_url(address) or (address if "://" in address else None)
    if url is not None:
        yield f"model_name ends in the address of a server: move it to endpoint_base_url = {redact_url(url)!r}"
