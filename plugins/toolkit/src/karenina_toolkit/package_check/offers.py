"""Checks of what a package offers: hooks, settings and adapters."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin, get_type_hints

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import PydanticUndefined

from karenina_core.catalog import read_catalog
from karenina_core.errors import type_and_message
from karenina_core.models.adapters import AdapterConfigError, AdapterSpec, AgentTier
from karenina_core.models.model import ModelConfig
from karenina_core.models.settings_models import mark_of
from karenina_core.namespaces import namespace_of
from karenina_core.plugins.hookspecs import karenina_settings
from karenina_core.plugins.registry import list_of
from karenina_core.stages.stage import registered_stages
from karenina_core.text import did_you_mean
from karenina_toolkit.hook_policy import policy_of
from karenina_toolkit.package_check.metadata import Finding, State
from karenina_toolkit.plugin_lookup import registered_adapters

if TYPE_CHECKING:
    from karenina_core.plugins import Offer, Plugins

_NOWHERE: Final = "http://127.0.0.1:9"
_METHODS: Final = {
    "llm": ("invoke", "invoke(self, messages, *, info)", 1),
    "parser": ("parse", "parse(self, messages, schema, *, info)", 2),
    "agent": ("run", "run(self, messages, options, *, info)", 2),
}


def check_hooks(plugins: Plugins, distribution: str) -> Iterator[Finding]:
    """Yield findings about each hook that a distribution's plugins implement: whether it works and is not deprecated.
    Hooks without parameters are called.
    """
    for owner in plugins.specifications.owners:
        for name in owner.hooks:
            specification = getattr(owner.module, name)
            for offer in plugins.implementations(specification):
                if offer.distribution == distribution:
                    problems = list(_problems_of_hook(specification, offer))
                    yield from (Finding("Hooks", "problem", problem) for problem in problems)
                    deprecated = policy_of(specification).deprecated
                    if deprecated is not None:
                        yield Finding("Hooks", "warning", f"{name} is deprecated: {deprecated}")
                    elif not problems:
                        yield Finding("Hooks", "ok", f"{name}{inspect.signature(specification)}".replace("'", ""))


def _problems_of_hook(specification: Callable[..., Any], offer: Offer[Callable[..., Any]]) -> Iterator[str]:
    """Yield the problems with a hook implementation: parameters with defaults and, for a hook without parameters, which
    is called, exceptions and results of the wrong type. One that is implemented under another name (`specname`) is not
    examined.

    Implementations that are async cannot be registered.
    """
    written = getattr(offer.plugin, offer.hook, None)
    if written is None:  # it is implemented under another name (specname)
        return
    defaults = [
        parameter.name
        for parameter in inspect.signature(written).parameters.values()
        if parameter.default is not inspect.Parameter.empty
        and parameter.name in inspect.signature(specification).parameters
    ]
    if defaults:
        names = ", ".join(defaults)
        yield (
            f"{offer.hook}: {names} {'has' if len(defaults) == 1 else 'have'} a default value, so no argument is ever "
            "passed; remove the default value"
        )
    if _offers_objects(specification):
        try:
            offered = offer.value()
        except (Exception, SystemExit) as error:
            yield f"{offer.hook} failed: {type_and_message(error)}"
            return
        try:
            list_of(offered_kind(specification), offered, specification)
        except TypeError as error:
            yield str(error)


def _offers_objects(specification: Callable[..., Any]) -> bool:
    """Return whether implementations of a hook return a list of objects and can be called at any time. This is known
    only of the hooks of Karenina's own distributions. Hooks of others may do something, or return anything.
    """
    owner = specification.__module__.partition(".")[0].replace("_", "-")
    return owner in read_catalog()["members"] and not inspect.signature(specification).parameters


def offered_kind(specification: Callable[..., Any]) -> Any:
    """Return the type of the values in the list that a hook returns, for use with `is_a`, or `object` if its
    specification does not state it. Types that the module of the specification imports only under `TYPE_CHECKING` are
    imported.
    """
    module = sys.modules[specification.__module__]
    imports = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ImportFrom)]
    names = {
        name.name: getattr(import_module(node.module), name.name)
        for node in imports
        if node.module is not None
        for name in node.names
        if name.name in str(inspect.signature(specification))
    }
    kind = next(iter(get_args(get_type_hints(specification, localns=names).get("return"))), object)
    return kind if get_origin(kind) in (None, type) else get_origin(kind)


def reject_wrong_offers(plugins: Plugins) -> None:
    """List third-party plugins as failed if what they offer cannot be used. Otherwise, only the commands that need it
    would find out. Hooks that third-party plugins specify are not called.
    """
    members = read_catalog()["members"]
    for owner in plugins.specifications.owners:
        for hook in (getattr(owner.module, name) for name in owner.hooks):
            offers = plugins.implementations(hook) if _offers_objects(hook) else []
            if any(offer.distribution not in members for offer in offers):
                plugins.offers(hook, offered_kind(hook))


def check_settings(plugins: Plugins, distribution: str) -> Iterator[Finding]:
    """Yield findings about the settings models of a distribution, its stages and its adapters: their defaults and
    descriptions, and whether a benchmark may set each setting.
    """
    models: dict[type[BaseModel], bool] = {}
    for offer in plugins.offers(karenina_settings, type[BaseModel]):
        if offer.distribution == distribution:
            models[offer.value] = True
    for registered in registered_stages(plugins):
        if registered.distribution == distribution:
            stage = registered.stage
            if stage.settings is not None:
                models[stage.settings] = True
            for model in (stage.trait_settings, stage.question_settings, stage.field_settings):
                if model is not None:
                    models.setdefault(model, False)
    for adapter in registered_adapters(plugins):
        if adapter.distribution == distribution and adapter.spec.extra is not None:
            models.setdefault(adapter.spec.extra, False)
    for model, are_settings in models.items():
        findings = list(_check_model(model, are_settings))
        yield from findings
        if not any(finding.state == "problem" for finding in findings):
            names = ", ".join(f"{namespace_of(model)}{name}" for name in model.model_fields)
            yield Finding("Settings", "ok", f"{model.__name__}: {names or 'no fields'}")


def _check_model(model: type[BaseModel], are_settings: bool) -> Iterator[Finding]:
    """Yield findings about a settings model: its defaults, its descriptions, and the values that a benchmark may set.
    With `are_settings`, every field must have a default.
    """
    values = {}
    for name, info in model.model_fields.items():
        where = f"{model.__name__}.{name}"
        default = info.get_default(call_default_factory=False)
        if info.default_factory is not None or default is not PydanticUndefined:
            try:
                values[name if info.alias is None else info.alias] = info.get_default(call_default_factory=True)
            except Exception as error:
                yield Finding("Settings", "problem", f"{where}: cannot create the default: {type_and_message(error)}")
        elif are_settings:
            yield Finding(
                "Settings", "problem", f"{where} has no default, so no run can start without it; add a default"
            )
        if not (info.description or "").strip():
            cure = 'write Field(..., description="...")'
            yield Finding("Settings", "problem", f"{where} has no description for users; {cure}")
        try:
            mark = mark_of(model, name)
        except ValueError as error:
            yield Finding("Settings", "problem", str(error))
        else:
            if mark is None:
                text = f"{where} does not say whether a benchmark may set it"
                cure = 'write json_schema_extra={"allowed_in_files": "any"}, or "never"'
                yield Finding("Settings", "warning", f"{text}; {cure}")
    try:
        model.model_validate(values)
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_context=False):
            if problem["type"] != "missing":
                where = ".".join((model.__name__, *map(str, problem["loc"])))
                text = f"{where}: the default {problem['input']!r:.100} is not valid: {problem['msg']}"
                yield Finding("Settings", "problem", text)
    except Exception as error:
        yield Finding("Settings", "problem", f"{model.__name__} failed: {type_and_message(error)}")


def check_adapters(plugins: Plugins, distribution: str) -> Iterator[Finding]:
    """Yield findings about whether each of a distribution's adapters provides what it declares. Ports are created but
    not called.
    """
    for adapter in registered_adapters(plugins):
        if adapter.distribution == distribution:
            findings = [
                Finding("Adapters", state, f"{adapter.spec.interface}: {text}")
                for state, text in _check_adapter(adapter.spec)
            ]
            yield from findings
            if not any(finding.state == "problem" for finding in findings):
                text = f"{adapter.spec.interface}: {', '.join(adapter.spec.ports)}; {adapter.spec.tier.value}"
                yield Finding("Adapters", "ok", text)


def _check_adapter(spec: AdapterSpec) -> Iterator[tuple[State, str]]:
    """Yield the state and the text of each problem with an adapter's declarations and, if it can be used here, with its
    ports, which are created for an imaginary model.
    """
    if not spec.description.strip():
        yield "problem", "the adapter has no description for `karenina plugins` to print; write description=..."
    if not spec.ports:
        yield "problem", "the adapter has no port; set llm=, parser= or agent= to a function that creates a port"
    if spec.allowed_in_files is None:
        cure = "write allowed_in_files=True if the adapter calls only servers in the user's own environment"
        yield (
            "problem",
            f"the adapter does not say whether a benchmark may choose it; {cure}, otherwise allowed_in_files=False",
        )
    for name in ("recorded", "free", "starts_tools", "by_item"):
        if not isinstance(getattr(spec, name), bool):
            yield (
                "problem",
                f"{name} must be True or False, not {getattr(spec, name)!r}; write, for example, {name}=True",
            )
    if spec.tier is AgentTier.DEEP_AGENT and spec.agent is None:
        yield "problem", "the tier is DEEP_AGENT, but the adapter has no agent port; write agent=..., or omit the tier"
    for name in spec.uses or ():
        if name not in ModelConfig.model_fields:
            near = did_you_mean(name, ModelConfig.model_fields)
            yield "problem", f"`uses` lists {name!r}, which is not a model field{near}"
    try:
        missing = spec.unavailable() if spec.unavailable is not None else None
    except Exception as error:
        yield "problem", f"unavailable() failed: {type_and_message(error)}; return the reason as a string, or None"
        return
    if missing is not None:
        yield "warning", f"the adapter cannot be used here, so its ports were not tested: {missing}"
        return
    yield from _check_ports(spec)


def _check_ports(spec: AdapterSpec) -> Iterator[tuple[State, str]]:
    """Create an adapter's ports for an imaginary model, and yield the problems with this and with their methods, each
    as its state and a text. If the adapter rejects this model both with and without an endpoint, only a warning is
    yielded.
    """
    served = ModelConfig(
        id="check",
        interface=spec.interface,
        model_name="check",
        endpoint_base_url=_NOWHERE,
        endpoint_api_key=SecretStr("check"),
    )
    plain = served.model_copy(update={"endpoint_base_url": None, "endpoint_api_key": None})
    ports: dict[str, Any] | None = None
    refused: Exception | None = None
    for model in (served, plain):
        try:
            returned: object = spec.check(model) if spec.check is not None else None
            if returned:
                yield "problem", f"check() returned {returned!r:.80}; raise AdapterConfigError, and return nothing"
                return
            most = spec.concurrency(model) if spec.concurrency is not None else None
            ports = {name: getattr(spec, name)(model) for name in spec.ports}
        except AdapterConfigError as error:
            refused = error
        except Exception as error:
            cure = "raise AdapterConfigError for a model that cannot work"
            yield "problem", f"cannot create the ports: {type_and_message(error)}; {cure}"
            return
        else:
            if most is not None and most < 1:
                yield "problem", f"concurrency() must return at least 1, or None if the limit is not known, not {most}"
            break
    if ports is None:
        why = "the adapter rejects a model without its own settings"
        yield "warning", f"the ports were not tested because {why} ({refused}); the adapter's contract tests check them"
        return
    for name, port in ports.items():
        method, signature, count = _METHODS[name]
        written = getattr(port, method, None)
        if not callable(written):
            yield "problem", f"the {name} port has no {method}() method; write async def {signature}, or omit {name}="
        elif not takes(written, count, info=None):
            actual = f"{method}{inspect.signature(written)}"
            yield (
                "problem",
                f"the {name} port has {actual}, which cannot be called with the expected arguments; write async def "
                f"{signature}",
            )
        elif not _is_async(written):
            yield "problem", f"{method}() of the {name} port is not async; write async def {signature}"
        if not _is_async(getattr(port, "aclose", None)):
            yield "problem", f"the {name} port has no async aclose() method; write async def aclose(self)"


def _is_async(function: Callable[..., Any] | None) -> bool:
    """Return whether a function is async, or a decorator that is not async itself was applied to one that is."""
    return function is not None and inspect.iscoroutinefunction(inspect.unwrap(function))


def takes(function: Callable[..., Any], count: int, **named: object) -> bool:
    """Return whether `function` accepts `count` positional arguments and the keyword arguments `named`."""
    try:
        inspect.signature(function).bind(*[None] * count, **named)
    except (TypeError, ValueError):
        return False
    return True
