"""Selection of the stages of a question's plan, with the reasons why the others are left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from karenina_core.artifacts.artifact import ANY, AnyKey
from karenina_core.artifacts.slot_rules import SLOT_RULES
from karenina_core.artifacts.slots import Slot
from karenina_core.catalog import install_command, read_catalog
from karenina_core.config.setting_owners import not_loaded
from karenina_core.errors import ConfigError
from karenina_core.stages.stage import Skip, Stage
from karenina_core.text import did_you_mean

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.stages.stage import RegisteredStage


@dataclass(frozen=True, slots=True)
class SelectedStage:
    """One stage object of the plan, with its distribution."""

    stage: Stage
    distribution: str
    version: str
    slot: Slot | None = None


@dataclass(slots=True)
class StageSelection:
    """The selected stages, those left out with the reasons, the problems, and the slots that stay empty."""

    stages: list[SelectedStage] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    empty: set[Slot] = field(default_factory=set)


def select(
    offered: Iterable[RegisteredStage],
    config: VerificationConfig,
    question: Question,
    failures: Mapping[str, str],
    conflicts: Iterable[str] = (),
) -> StageSelection:
    """Choose the stages by evaluation mode, `[slots]`, the stages' own conditions, and the artifacts that they need.

    `failures` tell by name why a plugin is not used; they are problems only if its stage is needed. `conflicts` are
    problems with names that several distributions offer: it is unknown which of them the user meant.
    """
    found = StageSelection()
    candidates = _make_candidates(offered, found)
    there = {one.stage.name for one in candidates}
    found.left_out += [(name, f"its plugin is not used: {why}") for name, why in failures.items() if name not in there]
    found.problems += sorted(set(conflicts))
    named = {slot: names for slot in Slot if (names := config.core.slots.get(slot.config_name)) is not None}
    for slot in Slot:
        here = [one for one in candidates if one.slot is slot]
        rule = SLOT_RULES[slot]
        mode = config.core.evaluation_mode
        if mode not in rule.modes:
            found.left_out += [(one.stage.name, f"slot {slot.config_name} does not exist in {mode}") for one in here]
        elif slot in named:
            _take_named(slot, named[slot], here, candidates, failures, found)
        elif rule.single:
            _take_one(slot, here, config, question, failures, found)
        else:
            _take_included(here, config, question, found)
            if rule.scores_rubric:
                _check_traits_have_stages(slot, here, question, failures, found)
    _take_included([one for one in candidates if one.slot is None], config, question, found)
    _check_artifacts(found)
    _drop_unmet_stages(found, candidates, {name for names in named.values() for name in names}, failures)
    return found


def _make_candidates(offered: Iterable[RegisteredStage], found: StageSelection) -> list[SelectedStage]:
    """Return one object of each class, sorted by name. Two classes of one name are a problem."""
    by_name: dict[str, list[RegisteredStage]] = {}
    for one in offered:
        by_name.setdefault(one.stage.name, []).append(one)
    candidates = []
    for name in sorted(by_name):
        same = sorted(by_name[name], key=lambda one: (one.distribution, one.version))
        if len(same) > 1:
            owners = " and ".join(f"{one.distribution} {one.version}" for one in same)
            found.problems.append(
                f"two plugins offer the stage {name}: {owners}; pick one in the configuration: "
                f'[plugins.pick] {name} = "{same[0].distribution}"'
            )
        else:
            only = same[0]
            candidates.append(SelectedStage(only.stage(), only.distribution, only.version, only.slot))
    return candidates


def _take_named(
    slot: Slot,
    names: tuple[str, ...],
    here: list[SelectedStage],
    everywhere: list[SelectedStage],
    failures: Mapping[str, str],
    found: StageSelection,
) -> None:
    line = f"[slots] {slot.config_name}"
    if SLOT_RULES[slot].single and len(names) != 1:
        found.problems.append(f"{line} names {len(names)} stages, but the slot takes exactly one: name only one")
    by_name = {one.stage.name: one for one in here}
    for name in dict.fromkeys(names):
        if name in by_name:
            found.stages.append(by_name[name])
        elif name in {one.stage.name for one in everywhere}:
            other = next(one for one in everywhere if one.stage.name == name)
            place = other.slot.config_name if other.slot is not None else "no slot"
            found.problems.append(f"{line} names {name}, which is a stage for {place}: name a stage for this slot")
        else:
            found.problems.append(f"{line} names {name}: {_describe_missing_stage(name, failures, by_name)}")
            found.empty.add(slot)
    found.left_out += [(one.stage.name, f"{line} names others") for one in here if one.stage.name not in names]


def _describe_missing_stage(name: str, failures: Mapping[str, str], installed: Iterable[str]) -> str:
    """Return why there is no stage `name`, with the cure."""
    if name in failures:
        return f"its plugin cannot be used: {failures[name]}"
    owner = read_catalog()["stages"].get(name)
    if owner is not None:
        return f"it is not installed: {install_command(owner)}"
    return f"no installed plugin offers it{did_you_mean(name, installed)}{not_loaded()}"


def _take_one(
    slot: Slot,
    here: list[SelectedStage],
    config: VerificationConfig,
    question: Question,
    failures: Mapping[str, str],
    found: StageSelection,
) -> None:
    answers = {one.stage.name: _is_included(one, config, question, found) for one in here}
    wanted = [one for one in here if answers[one.stage.name]] or [one for one in here if one.stage.fallback]
    top = max((one.stage.precedence for one in wanted), default=0)
    best = [one for one in wanted if one.stage.precedence == top]
    if len(best) == 1:
        found.stages.append(best[0])
        for one in here:
            if one is not best[0]:
                answer = answers[one.stage.name]
                why = f"{best[0].stage.name} fills the slot" if answer else _why_not(answer)
                found.left_out.append((one.stage.name, why))
        return
    line = f'[slots] {slot.config_name} = "..."'
    found.empty.add(slot)
    if best:
        names = " and ".join(one.stage.name for one in best)
        found.problems.append(
            f"slot {slot.config_name} takes one stage, and {names} have the same precedence: choose one by {line}"
        )
        return
    broken = [f"{name} ({why})" for name, why in sorted(failures.items()) if _fills(name, slot)]
    have = ", ".join(one.stage.name for one in here)
    if broken:
        cure = f"a plugin for it cannot be used: {'; '.join(broken)}"
    elif have:
        cure = f"installed for it: {have}; choose one by {line}"
    else:
        cure = _install_commands(slot)
    found.problems.append(f"slot {slot.config_name} needs a stage, but none is selected: {cure}")


def _fills(name: str, slot: Slot) -> bool:
    """Return whether a stage of this project, installed or not, is for `slot`."""
    return read_catalog()["stage_slots"].get(name) == slot.config_name


def _install_commands(slot: Slot, present: Collection[str] = ()) -> str:
    """Return the commands that install stages for `slot`, except from distributions that are `present`."""
    owners = sorted({owner for name, owner in read_catalog()["stages"].items() if _fills(name, slot)} - set(present))
    return " or ".join(dict.fromkeys(map(install_command, owners))) or "install a plugin that offers one"


def _take_included(
    here: Iterable[SelectedStage], config: VerificationConfig, question: Question, found: StageSelection
) -> None:
    for one in here:
        answer = _is_included(one, config, question, found)
        if answer:
            found.stages.append(one)
        else:
            found.left_out.append((one.stage.name, _why_not(answer)))


def _check_traits_have_stages(
    slot: Slot, here: list[SelectedStage], question: Question, failures: Mapping[str, str], found: StageSelection
) -> None:
    """Add a problem if a rubric trait of the question would be scored by no stage."""
    selected = [one for one in here if one in found.stages]
    traits = [
        trait.name
        for rubric in (question.rubric, question.dynamic_rubric)
        for trait in (rubric.traits if rubric is not None else ())
        if not any(one.stage.scores(trait) for one in selected)
    ]
    if not traits:
        return
    broken = [f"{name} cannot be used ({why})" for name, why in sorted(failures.items()) if _fills(name, slot)]
    commands = _install_commands(slot, {one.distribution for one in here})
    cure = "; ".join(broken) or f'{commands}, or set evaluation_mode = "template_only"'
    found.problems.append(
        f"question {question.id} has rubric traits ({', '.join(traits[:5])}), but no stage in slot {slot.config_name} "
        f"scores them: {cure}"
    )


def _is_included(
    one: SelectedStage, config: VerificationConfig, question: Question, found: StageSelection
) -> bool | Skip:
    """Return whether the stage belongs to the plan. An exception that it raises becomes a problem of the plan.

    A stage that does not decide is included, except in slots that take one stage, where installing a plugin must not
    change anything by itself.
    """
    if one.slot is not None and SLOT_RULES[one.slot].single and type(one.stage).included is Stage.included:
        return Skip("not selected by the configuration")
    try:
        return one.stage.included(config, question)
    except ConfigError as error:
        found.problems += [problem for problem in error.problems if problem not in found.problems]
        return False
    except Exception as error:
        problem = (
            f"stage {one.stage.name} of {one.distribution} {one.version} failed in included(): "
            f'{type(error).__name__}: {error}; block it: [plugins] block = ["{one.stage.name}"]'
        )
        if problem not in found.problems:
            found.problems.append(problem)
        return False


def _why_not(answer: object) -> str:
    return getattr(answer, "why", None) or "it is not included for this configuration and question"


def _check_artifacts(found: StageSelection) -> None:
    """Check that each artifact has one producer and one type, and that stages produce what their slots require."""
    producers: dict[str, list[str]] = {}
    types: dict[str, dict[str, list[str]]] = {}
    for one in found.stages:
        stage = one.stage
        for key in stage.produces:
            producers.setdefault(key.name, []).append(stage.name)
        declared: set[AnyKey] = set(stage.produces) | set(stage.requires) | set(stage.revises)
        for key in declared | (set() if stage.optional is ANY else set(stage.optional)):
            types.setdefault(key.name, {}).setdefault(key.type.__name__, []).append(stage.name)
        if one.slot is not None:
            missing = sorted(key.name for key in SLOT_RULES[one.slot].produces - set(stage.produces))
            if missing:
                found.problems.append(
                    f"stage {stage.name} of {one.distribution} fills slot {one.slot.config_name} without producing "
                    f"{', '.join(missing)}: choose another stage for the slot, or fix the plugin"
                )
    for name, stages in sorted(producers.items()):
        if len(stages) > 1:
            blocked = max(stages, key=lambda stage: (stage not in read_catalog()["stages"], stage))
            found.problems.append(
                f"the artifact {name!r} is produced by {' and '.join(sorted(stages))}, but only one stage may produce "
                f'it; block one of them: [plugins] block = ["{blocked}"]'
            )
    for name, by_type in sorted(types.items()):
        if len(by_type) > 1:
            views = "; ".join(f"{type} for {', '.join(sorted(stages))}" for type, stages in sorted(by_type.items()))
            found.problems.append(f"the artifact {name!r} has several types: {views}; block one of these plugins")


def _drop_unmet_stages(
    found: StageSelection, candidates: list[SelectedStage], named: set[str], failures: Mapping[str, str]
) -> None:
    """Leave out stages that require artifacts which no selected stage produces, or report them as problems.

    A stage is left out if the producer of its artifact is installed but left out. It is a problem if no stage produces
    the artifact at all, and if the configuration names the stage or its slot must have one.
    """
    reasons = dict(found.left_out)
    reported = {key for slot in found.empty for key in SLOT_RULES[slot].produces}
    changed = True
    while changed:
        changed = False
        produced = {key for one in found.stages for key in one.stage.produces}
        for one in list(found.stages):
            for key in sorted(one.stage.requires - produced - reported, key=lambda key: key.name):
                producers = [other.stage.name for other in candidates if key in other.stage.produces]
                left_out = [name for name in producers if name in reasons]
                stage = one.stage
                must_run = stage.name in named or (one.slot is not None and SLOT_RULES[one.slot].single)
                if left_out and not must_run:
                    why = f"needs {key.name} of {left_out[0]}, which is left out: {reasons[left_out[0]]}"
                    found.stages.remove(one)
                    found.left_out.append((stage.name, why))
                    reasons[stage.name] = why
                    changed = True
                    break
                cure = _describe_missing_producer(key, left_out, failures)
                problem = f"stage {stage.name} needs the artifact {key.name!r}, {cure}"
                if problem not in found.problems:
                    found.problems.append(problem)


def _describe_missing_producer(key: AnyKey, left_out: list[str], failures: Mapping[str, str]) -> str:
    """Return why no selected stage produces an artifact, with the cure."""
    if left_out:
        return f"but {left_out[0]}, which produces it, is not in the plan: choose it under [slots]"
    owner = read_catalog()["artifacts"].get(key.name)
    broken = [f"{name} cannot be used: {why}" for name, why in sorted(failures.items())]
    if owner is not None and not any(read_catalog()["stages"].get(name) == owner for name in failures):
        return f"which {owner} produces: {install_command(owner)}"
    if broken:
        return f"which no installed stage produces; {'; '.join(broken)}"
    return "which no installed stage produces: install the plugin that does, or block this stage's"
