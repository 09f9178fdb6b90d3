"""Checks of an installed plugin package that need no run.

This module checks entry points and stages. `offers` checks hooks, settings and adapters, and `metadata` checks
metadata.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from karenina_core.artifacts.artifact import ANY, AnyKey
from karenina_core.artifacts.keys import standard_keys
from karenina_core.catalog import read_catalog
from karenina_core.config import VerificationConfig, all_settings
from karenina_core.data.question import Question
from karenina_core.errors import ConfigError
from karenina_core.hooks import API_VERSION
from karenina_core.plan import PlanError, make_plan
from karenina_core.plugins import active_plugins
from karenina_core.plugins.discovery import GROUPS
from karenina_core.stage_selection import SLOT_RULES
from karenina_core.stages.stage import RegisteredStage, registered_stages
from karenina_core.text import did_you_mean
from karenina_toolkit.package_check.metadata import (
    KNOWN_GROUPS,
    Finding,
    InstalledPackage,
    State,
    check_metadata,
    find_package,
    group_problems,
    required_by,
)
from karenina_toolkit.package_check.offers import check_adapters, check_hooks, check_settings, takes
from karenina_toolkit.plugin_lookup import registered_adapters, unknown_places

if TYPE_CHECKING:
    from karenina_core.plan import Plan
    from karenina_core.plugins import Plugins
_PORTS = ("llm", "parser", "agent")


def check_package(name: str) -> tuple[InstalledPackage, list[Finding]]:
    """Check an installed package, and return it with the findings, good and bad. `name` may be the name of its
    distribution, an import package or a plugin. Raises `PluginError` unless exactly one distribution matches.

    The package's plugins are loaded and its ports are created, but no model is called.
    """
    package = find_package(name)
    plugins = active_plugins()
    registered_stages(plugins)
    registered_adapters(plugins)
    return package, [
        *_check_entry_points(package, plugins),
        *check_hooks(plugins, package.name),
        *_check_setting_names(plugins, package.name),
        *_check_stages(plugins, package.name, required_by([package.name])),
        *check_adapters(plugins, package.name),
        *check_metadata(package),
    ]


def _check_entry_points(package: InstalledPackage, plugins: Plugins) -> Iterator[Finding]:
    """Yield findings about a package's entry points: whether it has any, whether their groups exist, and whether each
    was loaded.
    """
    area = "Entry points"
    if not package.points:
        groups = ", ".join(GROUPS)
        cure = "add one to pyproject.toml and install the package again"
        yield Finding(area, "problem", f"{package.name} has no Karenina entry point ({groups}); {cure}")
    yield from (Finding(area, "problem", problem) for problem in group_problems(package.points))
    infos = [*plugins.describe(), *(owner.info for owner in plugins.specifications.owners)]
    for point in sorted(package.points):
        if point.group not in KNOWN_GROUPS:
            continue
        kind = GROUPS.get(point.group, "hooks")
        entry = f"{point.group}: {point.name} = {point.value}"
        for info in infos:
            if (info.name, info.kind, info.distribution) != (point.name, kind, package.name):
                continue
            if info.state == "loaded":
                yield Finding(area, "ok", entry)
            elif info.state == "blocked":
                yield Finding(area, "warning", f"{entry} was not tested: {info.failure}")
            else:
                yield Finding(area, "problem", f"{entry}: {info.failure}")
            yield from (Finding("Hooks", "warning", reason) for reason in info.ignored)
            break
        else:
            text = f"{entry} was not found; install the package again"
            yield Finding(area, "problem", text)
    if any(info.state == "loaded" and info.distribution == package.name for info in infos):
        yield Finding(
            "Interface",
            "ok",
            f"made for version {API_VERSION} of the plugin interface, which the installed core provides",
        )


def _check_setting_names(plugins: Plugins, distribution: str) -> Iterator[Finding]:
    """Yield findings about the settings. If names conflict, even those of other packages, nothing else is checked."""
    try:
        all_settings()
    except ConfigError as error:
        mine = [problem for problem in error.problems if distribution in problem]
        yield from (Finding("Settings", "problem", problem) for problem in mine)
        if not mine:
            yield Finding("Settings", "warning", f"the settings were not checked: {error.problems[0]}")
        return
    yield from check_settings(plugins, distribution)


def _check_stages(plugins: Plugins, distribution: str, required: Collection[str]) -> Iterator[Finding]:
    """Yield findings about each of a distribution's stages: the names that it declares and, unless there are problems
    with them, its place in the plan. Only plugins of this project and of the `required` distributions are considered,
    so that mistakes in other packages have no effect.
    """
    counted = {distribution, *required, *read_catalog()["members"]}
    offered = tuple(stage for stage in registered_stages(plugins) if stage.distribution in counted)
    for registered in offered:
        if registered.distribution != distribution:
            continue
        findings = [
            Finding("Stages", state, f"{registered.stage.name}: {text}")
            for state, text in _check_declared(registered, offered)
        ]
        yield from findings
        if not any(finding.state == "problem" for finding in findings):
            slot = f"slot {registered.slot.config_name}" if registered.slot is not None else "no slot"
            yield Finding(
                "Stages", "ok", f"{registered.stage.name}: {slot}, {registered.stage.scope} scope{_keys_of(registered)}"
            )
            yield _check_plan(registered, offered)


def _keys_of(registered: RegisteredStage) -> str:
    """Return a description of the artifacts that a stage reads and writes, to add to a sentence. It is empty if there
    are none.
    """
    optional = () if registered.stage.optional is ANY else registered.stage.optional
    reads = ", ".join(sorted(key.name for key in {*registered.stage.requires, *optional}))
    writes = ", ".join(sorted(key.name for key in {*registered.stage.produces, *registered.stage.revises}))
    return (f"; reads {reads}" if reads else "") + (f"; writes {writes}" if writes else "")


def _check_declared(registered: RegisteredStage, offered: tuple[RegisteredStage, ...]) -> Iterator[tuple[State, str]]:
    """Yield problems with a stage's `execute`, and with the artifacts, stages, settings and ports that it declares,
    such as missing ones, each as its state and a text. `offered` contains the stages that count as installed.
    """
    stage = registered.stage
    execute = inspect.getattr_static(stage, "execute")
    if inspect.isfunction(execute) and not takes(execute, 2):
        actual = f"execute{inspect.signature(execute)}"
        yield "problem", f"{actual} cannot be called with the context; write def execute(self, context)"
    keys: dict[str, AnyKey] = {key.name: key for other in offered for key in other.stage.produces}
    keys = {**keys, **standard_keys()}
    names = {*keys, *read_catalog()["artifacts"]}
    optional = frozenset[AnyKey]() if stage.optional is ANY else stage.optional
    for kind, declared in (
        ("requires", stage.requires),
        ("optional", optional),
        ("revises", stage.revises),
        ("produces", stage.produces),
    ):
        for key in sorted(declared, key=lambda key: key.name):
            other = keys.get(key.name)
            if other is not None and other.type is not key.type:
                text = (
                    f"`{kind}` lists the artifact {key.name!r} with the type {key.type.__name__}, but its type is "
                    f"{other.type.__name__}"
                )
                yield "problem", f"{text}; import the existing key instead of creating a new one"
            elif kind != "produces" and key.name not in names:
                near = did_you_mean(key.name, names, "")
                cure = near or "; install the plugin that does, or correct the name"
                state: State = "problem" if near or kind != "optional" else "warning"
                yield state, f"`{kind}` lists the artifact {key.name!r}, which no installed stage produces{cure}"
    for text, near in unknown_places(stage, offered):
        yield "problem" if near else "warning", text + near
    try:
        settings = {*all_settings(), *read_catalog()["settings"]}
    except ConfigError:  # reported with the settings
        settings = {*stage.reads}
    for name in stage.reads:
        if name not in settings:
            near = did_you_mean(name, settings, "")
            text = (
                f"`reads` lists the setting {name!r}, which no installed plugin has, so its value is always the "
                f"default{near}"
            )
            yield "problem" if near else "warning", text
    for port in stage.judge_ports:
        if port not in _PORTS:
            yield "problem", f"`judge_ports` lists {port!r}, which is not a port{did_you_mean(port, _PORTS)}"


def _check_plan(registered: RegisteredStage, offered: tuple[RegisteredStage, ...]) -> Finding:
    """Make a plan for a plain question, with the stage chosen for its slot if it has one, and return a finding that
    states where it is in the plan, or why it is not.
    """
    name, slot = registered.stage.name, registered.slot
    chosen: dict[str, Any] = {} if slot is None else {"slots": {slot.config_name: name}}
    mode = "template_only" if slot is None or "template_only" in SLOT_RULES[slot].modes else "template_and_rubric"
    line = "" if slot is None else f' with [slots] {slot.config_name} = "{name}"'
    try:
        config = VerificationConfig(evaluation_mode=mode, **chosen)
        plan = make_plan(offered, config, Question(question="A plain question", id="plain"))
    except (ConfigError, PlanError) as error:
        mine = [problem for problem in error.problems if name in problem]
        if mine:
            return Finding("Plan", "problem", f"cannot place {name} in the plan{line}: {'; '.join(mine)}")
        return Finding("Plan", "warning", f"cannot make a plan to show the position of {name}: {error.problems[0]}")
    return Finding("Plan", "ok", f"{name} {_place(plan, name)}{line}")


def _place(plan: Plan, name: str) -> str:
    """Return the end of a sentence that states where a stage is in the plan, or why it is left out."""
    names = plan.names()
    if name not in names:
        why = next((left.why for left in plan.left_out if left.name == name), "the stage is left out")
        return f"is not in the plan for a plain question: {why}"
    here = plan.stages[names.index(name)]
    waits = [f"{wait.stage} ({wait.artifact or wait.why})" for wait in here.waits_for]
    waiting = [
        f"{other.name} ({wait.artifact or wait.why})"
        for other in plan.stages
        for wait in other.waits_for
        if wait.stage == name and other.name != "FinalizeResult"
    ]
    after = f", after {', '.join(waits)}" if waits else ""
    before = f", before {', '.join(waiting)}" if waiting else ""
    return f"is stage {names.index(name) + 1} of {len(names)}{after}{before}"
