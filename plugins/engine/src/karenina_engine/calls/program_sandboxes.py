"""The sandbox for programs that agents start: MCP servers, and agents that are programs themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from karenina_core.errors import ConfigError
from karenina_engine.calls.hookspecs import karenina_program_sandbox
from karenina_engine.calls.opened_port import list_tool_sources
from karenina_toolkit.plugin_lookup import find_adapter

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import ProgramSandbox
    from karenina_core.plugins import Plugins


def find_program_sandbox(plugins: Plugins, config: VerificationConfig) -> ProgramSandbox | None:
    """Return the sandbox that the configuration chooses for programs of agents, or None."""
    for offer in plugins.implementations(karenina_program_sandbox):
        sandbox = offer.value(config=config, plugins=plugins)
        if sandbox is not None:
            return sandbox
    return None


def check_programs(plugins: Plugins, config: VerificationConfig, models: Sequence[tuple[str, ModelConfig]]) -> None:
    """Raise `ConfigError` with each program of the models that cannot run in the sandbox. Without a sandbox for
    programs, nothing is checked. `models` contains pairs of a role for messages and a model.
    """
    sandbox = find_program_sandbox(plugins, config)
    if sandbox is None:
        return
    problems = [
        f"{role} {model.id!r}: {problem}"
        for role, model in models
        for command in _list_programs(plugins, model)
        if (problem := sandbox.problem_of(command)) is not None
    ]
    if problems:
        raise ConfigError(problems)


def find_used_sandbox(plugins: Plugins, config: VerificationConfig, models: Iterable[ModelConfig]) -> str | None:
    """Return the distribution that offers the sandbox for programs of the models, or None if no program runs in one."""
    if not any(_list_programs(plugins, model) for model in models):
        return None
    for offer in plugins.implementations(karenina_program_sandbox):
        if offer.value(config=config, plugins=plugins) is not None:
            return offer.distribution
    return None


def _list_programs(plugins: Plugins, model: ModelConfig) -> list[Sequence[str]]:
    """Return the commands that start a model's agent and its tools, as lists of words. Recorded models and adapters
    without an agent have none.
    """
    spec = find_adapter(plugins, model.interface).spec
    if spec.recorded or spec.agent is None:
        return []
    commands = [] if spec.program is None else [spec.program(model)]
    if not spec.starts_tools:
        sources = [source for source in list_tool_sources(plugins) if source.applies_to(model)]
        commands += [command for source in sources for command in source.programs(model)]
    return commands
