"""Which of the offered stages a question's plan takes, and why the others are left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from karenina_core.artifacts.artifact import ANY, AnyKey
from karenina_core.artifacts.slots import SLOT_RULES, Slot
from karenina_core.catalog import install_command, read_catalog
from karenina_core.errors import ConfigError
from karenina_core.text import did_you_mean

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.stages.stage import RegisteredStage, Skip, Stage


@dataclass(frozen=True, slots=True)
class SelectedStage:
    """One stage object of the plan, and whose it is."""

    stage: Stage
    distribution: str
    version: str


@dataclass(slots=True)
class StageSelection:
    """What was selected, what was not, and what is wrong."""

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
    """Choose the stages: by evaluation mode, by `[slots]`, by what the stages say, and by who meets whose needs.

    `failures` say by name why a plugin is not used, and are problems only where its stage is needed; `conflicts` are
    names that several distributions offer, and always matter: nobody can know which of them was meant.
    """
    found = StageSelection()
    candidates = _unique(offered, found)
    there = {one.stage.name for one in candidates}
    found.left_out += [(name, f"its plugin is not used: {why}") for name, why in failures.items() if name not in there]
    found.problems += sorted(set(conflicts))
    named = {slot: names for slot in Slot if (names := config.core.slots.get(slot.config_name)) is not None}
    for slot in Slot:
        here = [one for one in candidates if one.stage.slot is slot]
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
                _hold_to_rubric(slot, here, question, failures, found)
    _take_included([one for one in candidates if one.stage.slot is None], config, question, found)
    _check_products(found)
    _settle_needs(found, candidates, {name for names in named.values() for name in names}, failures)
    return found


def _unique(offered: Iterable[RegisteredStage], found: StageSelection) -> list[SelectedStage]:
    """One object for each offered class, sorted by name; two of one name are a problem."""
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
            candidates.append(SelectedStage(same[0].stage(), same[0].distribution, same[0].version))
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
        found.problems.append(f"{line} names {len(names)} stages, and the slot takes exactly one: name one")
    by_name = {one.stage.name: one for one in here}
    for name in dict.fromkeys(names):
        if name in by_name:
            found.stages.append(by_name[name])
        elif name in {one.stage.name for one in everywhere}:
            other = next(one for one in everywhere if one.stage.name == name)
            place = other.stage.slot.config_name if other.stage.slot is not None else "no slot"
            found.problems.append(f"{line} names {name}, which is a stage for {place}: name a stage for this slot")
        else:
            found.problems.append(f"{line} names {name}: {_absent(name, failures, by_name)}")
            found.empty.add(slot)
    found.left_out += [(one.stage.name, f"{line} names others") for one in here if one.stage.name not in names]


def _absent(name: str, failures: Mapping[str, str], installed: Iterable[str]) -> str:
    """Why there is no stage `name`, and what to do."""
    if name in failures:
        return f"its plugin cannot be used: {failures[name]}"
    owner = read_catalog()["stages"].get(name)
    if owner is not None:
        return f"it is not installed: {install_command(owner)}"
    return f"no installed plugin offers it{did_you_mean(name, installed)}"


def _take_one(
    slot: Slot,
    here: list[SelectedStage],
    config: VerificationConfig,
    question: Question,
    failures: Mapping[str, str],
    found: StageSelection,
) -> None:
    answers = {one.stage.name: _ask(one, config, question, found) for one in here}
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
            f"slot {slot.config_name} takes one stage and {names} have the same claim: choose by {line}"
        )
        return
    broken = [f"{name} ({why})" for name, why in sorted(failures.items()) if _fills(name, slot)]
    have = ", ".join(one.stage.name for one in here)
    if broken:
        cure = f"a plugin for it cannot be used: {'; '.join(broken)}"
    elif have:
        cure = f"installed for it: {have}; choose by {line}"
    else:
        cure = _who_fills(slot)
    found.problems.append(f"slot {slot.config_name} needs a stage and none stands there: {cure}")


def _fills(name: str, slot: Slot) -> bool:
    """Whether a stage of this project's, installed or not, is for `slot`."""
    return read_catalog()["stage_slots"].get(name) == slot.config_name


def _who_fills(slot: Slot, present: Collection[str] = ()) -> str:
    """The command that installs a stage for `slot`, where this project has one that is not `present`."""
    owners = sorted({owner for name, owner in read_catalog()["stages"].items() if _fills(name, slot)} - set(present))
    return " or ".join(dict.fromkeys(map(install_command, owners))) or "install a plugin that offers one"


def _take_included(
    here: Iterable[SelectedStage], config: VerificationConfig, question: Question, found: StageSelection
) -> None:
    for one in here:
        answer = _ask(one, config, question, found)
        if answer:
            found.stages.append(one)
        else:
            found.left_out.append((one.stage.name, _why_not(answer)))


def _hold_to_rubric(
    slot: Slot, here: list[SelectedStage], question: Question, failures: Mapping[str, str], found: StageSelection
) -> None:
    """Rubric traits that no stage would score are a problem: they must not drop out in silence."""
    standing = [one for one in here if one in found.stages]
    traits = [
        trait.name
        for rubric in (question.rubric, question.dynamic_rubric)
        for trait in (rubric.traits if rubric is not None else ())
        if not any(one.stage.scores(trait) for one in standing)
    ]
    if not traits:
        return
    broken = [f"{name} cannot be used ({why})" for name, why in sorted(failures.items()) if _fills(name, slot)]
    absent = _who_fills(slot, {one.distribution for one in here})
    cure = "; ".join(broken) or f'{absent}, or set evaluation_mode = "template_only"'
    found.problems.append(
        f"question {question.id} has rubric traits ({', '.join(traits[:5])}) and no stage in slot {slot.config_name} "
        f"scores them: {cure}"
    )


def _ask(one: SelectedStage, config: VerificationConfig, question: Question, found: StageSelection) -> bool | Skip:
    """What the stage says about its place; one that raises is a problem of the plan, not a crash."""
    try:
        return one.stage.included(config, question)
    except ConfigError as error:
        found.problems += [problem for problem in error.problems if problem not in found.problems]
        return False
    except Exception as error:
        problem = (
            f"stage {one.stage.name} of {one.distribution} {one.version} cannot say whether it belongs into the plan: "
            f'{type(error).__name__}: {error}; block it: [plugins] block = ["{one.stage.name}"]'
        )
        if problem not in found.problems:
            found.problems.append(problem)
        return False


def _why_not(answer: object) -> str:
    return getattr(answer, "why", None) or "it says that it does not belong into this plan"


def _check_products(found: StageSelection) -> None:
    """Each artifact has one producer and one type, and a slot's stage produces what the slot asks for."""
    producers: dict[str, list[str]] = {}
    types: dict[str, dict[str, list[str]]] = {}
    for one in found.stages:
        stage = one.stage
        for key in stage.produces:
            producers.setdefault(key.name, []).append(stage.name)
        declared: set[AnyKey] = set(stage.produces) | set(stage.requires) | set(stage.revises)
        for key in declared | (set() if stage.optional is ANY else set(stage.optional)):
            types.setdefault(key.name, {}).setdefault(key.type.__name__, []).append(stage.name)
        if stage.slot is not None:
            missing = sorted(key.name for key in SLOT_RULES[stage.slot].produces - set(stage.produces))
            if missing:
                found.problems.append(
                    f"stage {stage.name} of {one.distribution} fills slot {stage.slot.config_name} without producing "
                    f"{', '.join(missing)}: choose another stage for the slot, or mend the plugin"
                )
    for name, stages in sorted(producers.items()):
        if len(stages) > 1:
            found.problems.append(
                f"the artifact {name!r} is produced by {' and '.join(sorted(stages))}; exactly one may: block one of "
                f'them: [plugins] block = ["{sorted(stages)[-1]}"]'
            )
    for name, by_type in sorted(types.items()):
        if len(by_type) > 1:
            views = "; ".join(f"{type} for {', '.join(sorted(stages))}" for type, stages in sorted(by_type.items()))
            found.problems.append(f"the artifact {name!r} has several types: {views}; block one of these plugins")


def _settle_needs(
    found: StageSelection, candidates: list[SelectedStage], named: set[str], failures: Mapping[str, str]
) -> None:
    """Leave out, stage by stage, whose hard needs nobody in the plan meets; report those that must stand.

    A stage whose producer is installed and was left out is left out too, with that reason. Nobody at all to meet the
    need is a problem, and so is a need of a stage that the configuration names or that alone fills its slot.
    """
    reasons = dict(found.left_out)
    told = {key for slot in found.empty for key in SLOT_RULES[slot].produces}
    changed = True
    while changed:
        changed = False
        produced = {key for one in found.stages for key in one.stage.produces}
        for one in list(found.stages):
            for key in sorted(one.stage.requires - produced - told, key=lambda key: key.name):
                makers = [other.stage.name for other in candidates if key in other.stage.produces]
                outside = [name for name in makers if name in reasons]
                stage = one.stage
                must_stand = stage.name in named or (stage.slot is not None and SLOT_RULES[stage.slot].single)
                if outside and not must_stand:
                    why = f"needs {key.name} of {outside[0]}, which is left out: {reasons[outside[0]]}"
                    found.stages.remove(one)
                    found.left_out.append((stage.name, why))
                    reasons[stage.name] = why
                    changed = True
                    break
                problem = f"stage {stage.name} needs the artifact {key.name!r}, {_nobody(key, outside, failures)}"
                if problem not in found.problems:
                    found.problems.append(problem)


def _nobody(key: AnyKey, outside: list[str], failures: Mapping[str, str]) -> str:
    """Who could meet a need that nobody in the plan meets."""
    if outside:
        return f"and {outside[0]}, which produces it, is not in the plan: choose it under [slots]"
    owner = read_catalog()["artifacts"].get(key.name)
    broken = [f"{name} cannot be used: {why}" for name, why in sorted(failures.items())]
    if owner is not None and not any(read_catalog()["stages"].get(name) == owner for name in failures):
        return f"which {owner} produces: {install_command(owner)}"
    if broken:
        return f"which no installed stage produces; {'; '.join(broken)}"
    return "which no installed stage produces: install the plugin that does, or block this stage's"
