"""Checks of a run's stages and models before the first call is made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from karenina_core.errors import ConfigError, PluginError, type_and_message
from karenina_core.stages.stage import ModelNeed, ServiceNeed, Stage, registered_stages
from karenina_engine.calls.journal_labels import ModelLabel
from karenina_engine.calls.opened_port import find_tool_problems
from karenina_engine.check.judge_needs import missing_ports
from karenina_engine.check.planner import QuestionSubset
from karenina_engine.model_settings import configured_models
from karenina_toolkit.http.urls import complete_url, redact_url
from karenina_toolkit.plugin_lookup import find_adapter

if TYPE_CHECKING:
    from array import array

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins


_HTTP: Final = re.compile(r"https?:", re.IGNORECASE)
"""Matches the start of a URL for HTTP. Adapters of other packages may have servers of other kinds."""


def check_configuration(plugins: Plugins, config: VerificationConfig) -> None:
    """Let every installed stage check the configuration with `Stage.before_any_run`. Raises `ConfigError` with all
    problems found.
    """
    problems: list[str] = []
    for offered in registered_stages(plugins):
        if offered.stage.before_any_run is Stage.before_any_run:
            continue
        try:
            offered.stage().before_any_run(config)
        except ConfigError as error:
            problems += error.problems
        except ValueError as error:
            problems.append(f"{offered.stage.name}: {error}")
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def check_stages(
    plugins: Plugins,
    config: VerificationConfig,
    questions: Sequence[Question],
    trust: Trust,
    survey: Mapping[str, tuple[Stage, array[int]]],
    *,
    offline: bool = False,
) -> list[ModelNeed]:
    """Let each stage check the run with `Stage.before_run`, then check the models that it needs. `survey` maps names to
    stages and the positions of their questions. Return the models, with their roles and ports. Raises `ConfigError`
    with all problems found. If `offline` is set, no calls will be made, so services and keys may be missing.
    """
    problems: list[str] = []
    model_needs: list[ModelNeed] = []
    for name, (stage, places) in survey.items():
        checked = questions if len(places) == len(questions) else QuestionSubset(questions, places)
        try:
            needs = list(stage.before_run(config, checked, trust))
        except ConfigError as error:
            problems += error.problems
        except ValueError as error:
            problems.append(f"{name}: {error}")
        else:
            models = [need for need in needs if isinstance(need, ModelNeed)]
            problems += [need.problem for need in needs if isinstance(need, ServiceNeed) and not offline]
            problems += _model_problems(plugins, config, name, models, offline=offline)
            model_needs += models
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return model_needs


def _model_problems(
    plugins: Plugins, config: VerificationConfig, name: str, needs: Sequence[ModelNeed], *, offline: bool
) -> list[str]:
    """Return the problems with the models that the stage called `name` needs. Configured models have already been
    checked, so only their ports are checked here. If `offline` is set, whatever is only needed for calls may be
    missing.
    """
    configured = [model for _, model in configured_models(config)]
    problems: list[str] = []
    for need in needs:
        try:
            if not any(need.model is model for model in configured):
                check_models(plugins, [(need.role, need.model)], offline=offline)
        except ConfigError as error:
            problems += error.problems
            continue
        problems += missing_ports(need.role, need.model, name, plugins, need.ports)
    return problems


def check_models(plugins: Plugins, models: Sequence[tuple[str, ModelConfig]], *, offline: bool = False) -> None:
    """Raise `ConfigError` with everything that would make calls to `models`, pairs of a role for messages and a model,
    fail. If `offline` is set, keys and packages may be missing. Nothing is sent. With `offline`, only adapters of
    recorded answers check their models, but the form of a base URL is checked. For a `ModelLabel`, the only check is
    whether its adapter exists.
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
                    f"{where}: the adapter {spec.interface!r} has no extra settings; remove {names} from extra"
                )
            if not offline or spec.recorded:
                returned: object = spec.check(model) if spec.check is not None else None
                if returned:  # plugins may not be type-checked
                    cure = "it must raise AdapterConfigError for a model that cannot work, and must not be async"
                    problems.append(f"{where}: check() of {spec.interface!r} returned {returned!r:.200}; {cure}")
            elif model.endpoint_base_url is not None and _HTTP.match(model.endpoint_base_url):
                from karenina_toolkit.http.endpoints import check_address

                check_address(model, model.endpoint_base_url)
        except ValidationError as error:
            problems += [
                f"{where}: extra.{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
                for problem in error.errors(include_url=False, include_input=False)
            ]
        except ValueError as error:
            named = f"model {model.id!r}"  # adapters name the model too
            problems.append(f"{where}: {str(error).removeprefix(f'{named}: ').removeprefix(f'{named}, ')}")
        except Exception as error:
            problems.append(f"{where}: check() of {spec.interface!r} failed: {type_and_message(error)}")
        problems += [f"{where}: {problem}" for problem in find_tool_problems(plugins, model, spec)]
    if problems:
        raise ConfigError(problems)


def _address_in_name(model: ModelConfig, spec: AdapterSpec) -> Iterator[str]:
    """Yield a message if the model's name ends in a URL and it has no other address, because requests would not be sent
    there. Recorded and free models are not checked.
    """
    name, _, address = model.model_name.rpartition("@")
    if not name or model.endpoint_base_url is not None or spec.recorded or spec.free:
        return
    url = complete_url(address) or (address if "://" in address else None)
    if url is not None:
        yield f"model_name ends in a server URL; move the URL to endpoint_base_url = {redact_url(url)!r}"
