"""Selection of a plan's stages according to the slot rules, with the reasons for leaving out the other stages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from karenina_core.artifacts.artifact import ANY, AnyKey, EvaluationMode, Slot
from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.catalog import install_command, official_first, read_catalog
from karenina_core.config.setting_owners import not_loaded
from karenina_core.errors import ConfigError
from karenina_core.stages.stage import Skip, Stage
from karenina_core.text import did_you_mean

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.stages.stage import RegisteredStage

_ALL: Final[frozenset[EvaluationMode]] = frozenset({"template_only", "template_and_rubric", "rubric_only"})
_TEMPLATE: Final[frozenset[EvaluationMode]] = frozenset({"template_only", "template_and_rubric"})
_RUBRIC: Final[frozenset[EvaluationMode]] = frozenset({"template_and_rubric", "rubric_only"})


class SlotRule(NamedTuple):
    """The rules for a slot.

    - `modes`: the evaluation modes in which the slot exists.
    - `single`: whether the slot takes exactly one stage. Other slots take any number.
    - `produces`: the artifacts that a stage in the slot must produce.
    - `scores_rubric`: whether every rubric trait of a question must be scored by a stage in the slot.
    """

    modes: frozenset[EvaluationMode]
    single: bool = False
    produces: frozenset[AnyKey] = frozenset()
    scores_rubric: bool = False


SLOT_RULES: Final[dict[Slot, SlotRule]] = {
    Slot.VALIDATE_TEMPLATE: SlotRule(
        _TEMPLATE, single=True, produces=frozenset({Keys.RAW_ANSWER_CLASS, Keys.ANSWER_CLASS})
    ),
    Slot.GENERATE_ANSWER: SlotRule(_ALL, single=True, produces=frozenset({Keys.RAW_LLM_RESPONSE})),
    Slot.RECURSION_LIMIT_AUTO_FAIL: SlotRule(_ALL),
    Slot.TRACE_VALIDATION_AUTO_FAIL: SlotRule(_ALL),
    Slot.ABSTENTION_CHECK: SlotRule(_ALL),
    Slot.SUFFICIENCY_CHECK: SlotRule(_TEMPLATE),
    Slot.PARSE_TEMPLATE: SlotRule(_TEMPLATE, single=True, produces=frozenset({Keys.PARSED_ANSWER})),
    Slot.VERIFY_TEMPLATE: SlotRule(_TEMPLATE, single=True, produces=frozenset({Keys.FIELD_VERIFICATION_RESULT})),
    Slot.EMBEDDING_CHECK: SlotRule(_TEMPLATE),
    Slot.DEEP_JUDGMENT_AUTO_FAIL: SlotRule(_TEMPLATE),
    Slot.RUBRIC_EVALUATION: SlotRule(_RUBRIC, scores_rubric=True),
    Slot.DEEP_JUDGMENT_RUBRIC_AUTO_FAIL: SlotRule(_RUBRIC),
    Slot.FINALIZE_RESULT: SlotRule(_ALL, single=True),
}


class SelectedStage(NamedTuple):
    """An instance of a stage, with its distribution."""

    stage: Stage
    distribution: str
    version: str
    slot: Slot | None = None


@dataclass(slots=True)
class StageSelection:
    """The selected stages, the stages left out with the reasons, the problems, and the slots that remain empty.

    `candidates` contains all stages that plugins offer. `failures` maps unusable plugins to the reasons.
    """

    config: VerificationConfig
    question: Question
    failures: Mapping[str, str]
    candidates: list[SelectedStage]
    stages: list[SelectedStage] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    empty: set[Slot] = field(default_factory=set)

    def take_named(self, slot: Slot, names: tuple[str, ...], here: list[SelectedStage]) -> None:
        """Select the stages that the configuration names for `slot`, and leave out the others in `here`, the stages
        offered for the slot. A name that does not belong to a stage for this slot is a problem, and so are several
        names if the slot takes one stage.
        """
        line = f"[slots] {slot.config_name}"
        if SLOT_RULES[slot].single and len(names) != 1:
            self.problems.append(f"{line} selects {len(names)} stages, but the slot takes exactly one; select only one")
        by_name = {offer.stage.name: offer for offer in here}
        for name in dict.fromkeys(names):
            if name in by_name:
                self.stages.append(by_name[name])
            elif other := next((candidate for candidate in self.candidates if candidate.stage.name == name), None):
                place = f"for slot {other.slot.config_name}" if other.slot is not None else "without a slot"
                self.problems.append(f"{line} selects {name}, which is a stage {place}; select a stage for this slot")
            else:
                self.problems.append(f"{line} selects {name}: {_describe_missing_stage(name, self.failures, by_name)}")
                self.empty.add(slot)
        self.left_out += [
            (offer.stage.name, f"{line} selects other stages") for offer in here if offer.stage.name not in names
        ]

    def take_one(self, slot: Slot, here: list[SelectedStage]) -> None:
        """Select the stage for a slot that takes only one: the included stage with the highest precedence or, if none
        is included, the fallback. If there is none, or a tie, the slot stays empty and a problem is added.
        """
        answers = {offer.stage.name: self._is_included(offer) for offer in here}
        fitting = [offer for offer in here if answers[offer.stage.name]]
        fitting = fitting or [offer for offer in here if offer.stage.fallback]
        top = max((offer.stage.precedence for offer in fitting), default=0)
        best = [offer for offer in fitting if offer.stage.precedence == top]
        if len(best) == 1:
            self.stages.append(best[0])
            for offer in here:
                if offer is not best[0]:
                    answer = answers[offer.stage.name]
                    why = f"{best[0].stage.name} fills the slot" if answer else _why_not(answer)
                    self.left_out.append((offer.stage.name, why))
            return
        line = f'[slots] {slot.config_name} = "..."'
        self.empty.add(slot)
        if best:
            names = " and ".join(offer.stage.name for offer in best)
            self.problems.append(
                f"slot {slot.config_name} takes one stage, but {names} have the same precedence; choose one with {line}"
            )
            return
        broken = [f"{name} ({why})" for name, why in sorted(self.failures.items()) if _fills(name, slot)]
        have = ", ".join(offer.stage.name for offer in here)
        if broken:
            cure = f"; a plugin for this slot cannot be used: {'; '.join(broken)}"
        elif have:
            cure = f"; the stages installed for this slot are {have}; choose one with {line}"
        else:
            cure = f": {_install_commands(slot)}"
        self.problems.append(f"slot {slot.config_name} needs a stage, but none was selected{cure}")

    def take_included(self, here: Iterable[SelectedStage]) -> None:
        """Add each stage in `here` to `stages` if it is included in the plan, or else to `left_out` with the reason."""
        for offer in here:
            answer = self._is_included(offer)
            if answer:
                self.stages.append(offer)
            else:
                self.left_out.append((offer.stage.name, _why_not(answer)))

    def check_traits_have_stages(self, slot: Slot, here: list[SelectedStage]) -> None:
        """Add a problem if the question has traits that are not scored by any selected stage in `here`."""
        selected = [offer for offer in here if offer in self.stages]
        traits = [
            trait.name
            for rubric in (self.question.rubric, self.question.dynamic_rubric)
            for trait in (rubric.traits if rubric is not None else ())
            if not any(offer.stage.scores(trait) for offer in selected)
        ]
        if not traits:
            return
        broken = [f"{name} cannot be used ({why})" for name, why in sorted(self.failures.items()) if _fills(name, slot)]
        commands = _install_commands(slot, {offer.distribution for offer in here})
        cure = "; ".join(broken) or f'{commands}, or set evaluation_mode = "template_only"'
        self.problems.append(
            f"question {self.question.id} has rubric traits ({', '.join(traits[:5])}), but no stage in slot "
            f"{slot.config_name} scores them: {cure}"
        )

    def _is_included(self, offer: SelectedStage) -> bool | Skip:
        """Return whether a stage should be in the plan, or a `Skip` with the reason why not. A stage that does not
        define `included` is in the plan, unless its slot takes only one stage. If `included` raises an error, the stage
        is not in the plan, and the error is added to `problems`.

        Installing a plugin must not change results by itself.
        """
        if offer.slot is not None and SLOT_RULES[offer.slot].single and type(offer.stage).included is Stage.included:
            return Skip("not selected by the configuration")
        try:
            included = offer.stage.included(self.config, self.question)
            if isinstance(included, bool | Skip):
                return included
            raise TypeError(f"it must return True, False or Skip(reason), not {included!r} ({type(included).__name__})")
        except ConfigError as error:
            self.problems += [problem for problem in error.problems if problem not in self.problems]
            return False
        except Exception as error:
            problem = (
                f"stage {offer.stage.name} of {offer.distribution} {offer.version} failed in included() "
                f'({type(error).__name__}: {error}); block it with [plugins] block = ["{offer.stage.name}"]'
            )
            if problem not in self.problems:
                self.problems.append(problem)
            return False

    def check_artifacts(self) -> None:
        """Add a problem for each artifact that has several producers or types. Stages that do not produce the artifacts
        required by their slot are problems too.
        """
        producers: dict[str, list[str]] = {}
        types: dict[str, dict[str, list[str]]] = {}
        for selected in self.stages:
            stage = selected.stage
            for key in stage.produces:
                producers.setdefault(key.name, []).append(stage.name)
            declared: set[AnyKey] = set(stage.produces) | set(stage.requires) | set(stage.revises)
            for key in declared | (set() if stage.optional is ANY else set(stage.optional)):
                types.setdefault(key.name, {}).setdefault(key.type.__name__, []).append(stage.name)
            if selected.slot is not None:
                missing = sorted(key.name for key in SLOT_RULES[selected.slot].produces - set(stage.produces))
                if missing:
                    self.problems.append(
                        f"stage {stage.name} of {selected.distribution} fills slot {selected.slot.config_name} "
                        f"without producing {', '.join(missing)}; choose another stage for the slot, or fix the plugin"
                    )
        for name, stages in sorted(producers.items()):
            if len(stages) > 1:
                blocked = max(stages, key=lambda stage: (stage not in read_catalog()["stages"], stage))
                self.problems.append(
                    f"the artifact {name!r} is produced by {' and '.join(sorted(stages))}, but only one stage may "
                    f'produce it; block one of them with [plugins] block = ["{blocked}"]'
                )
        for name, by_type in sorted(types.items()):
            if len(by_type) > 1:
                views = "; ".join(f"{type} for {', '.join(sorted(stages))}" for type, stages in sorted(by_type.items()))
                self.problems.append(f"the artifact {name!r} has several types ({views}); block one of these plugins")

    def check_known_values(self) -> None:
        """Add a problem for each known value that several stages offer, or that is compared but not offered."""
        offers = [(pattern, stage) for stage in self.stages for pattern in stage.stage.offers]
        for (pattern, one), (other_pattern, other) in combinations(offers, 2):
            if one is not other and (fnmatchcase(pattern, other_pattern) or fnmatchcase(other_pattern, pattern)):
                blocked = max(one, other, key=lambda stage: official_first(stage.distribution)).stage.name
                self.problems.append(
                    f"the known value {pattern!r} is offered by {one.stage.name} and {other.stage.name}, but only one "
                    f'stage may offer it; block one of them with [plugins] block = ["{blocked}"]'
                )
        for comparing in self.stages:
            for name in comparing.stage.known_values(self.config, self.question):
                if not any(fnmatchcase(name, pattern) for pattern, _ in offers):
                    why = self._why_not_offered(name)
                    self.problems.append(f"question {self.question.id} compares the known value {name!r}, {why}")

    def _why_not_offered(self, name: str) -> str:
        """Explain why no selected stage offers the given known value, and how to fix it."""
        for stage, why in self.left_out:
            offered = next((other.stage.offers for other in self.candidates if other.stage.name == stage), {})
            if any(fnmatchcase(name, pattern) for pattern in offered):
                return f"but {stage}, which offers it, is not in the plan: {why}"
        return describe_missing_value(name, [pattern for other in self.candidates for pattern in other.stage.offers])

    def drop_unmet_stages(self, named: set[str]) -> None:
        """Leave out stages that require an artifact of a stage that was left out, repeatedly. A stage that the
        configuration names (`named`), whose slot takes only one, or whose artifact no installed stage produces, stays,
        and a problem is added.
        """
        reasons = dict(self.left_out)
        reported = {key for slot in self.empty for key in SLOT_RULES[slot].produces}
        changed = True
        while changed:
            changed = False
            produced = {key for selected in self.stages for key in selected.stage.produces}
            for selected in list(self.stages):
                for key in sorted(selected.stage.requires - produced - reported, key=lambda key: key.name):
                    producers = [other.stage.name for other in self.candidates if key in other.stage.produces]
                    left_out = [name for name in producers if name in reasons]
                    stage = selected.stage
                    must_run = stage.name in named or (selected.slot is not None and SLOT_RULES[selected.slot].single)
                    if left_out and not must_run:
                        why = f"needs {key.name} from {left_out[0]}, which was left out: {reasons[left_out[0]]}"
                        self.stages.remove(selected)
                        self.left_out.append((stage.name, why))
                        reasons[stage.name] = why
                        changed = True
                        break
                    cure = _describe_missing_producer(key, left_out, self.failures)
                    problem = f"stage {stage.name} needs the artifact {key.name!r}, {cure}"
                    if problem not in self.problems:
                        self.problems.append(problem)


def select(
    offered: Iterable[RegisteredStage],
    config: VerificationConfig,
    question: Question,
    failures: Mapping[str, str],
    conflicts: Iterable[str] = (),
) -> StageSelection:
    """Select from the `offered` stages based on the evaluation mode, `[slots]`, their own conditions, and the artifacts
    they need. Problems, also `conflicts`, are stored in the selection instead of being raised. `failures` maps unusable
    plugins to the reasons, which only matter if one of their stages is needed.

    `conflicts` contains problems with names that several distributions offer, because it is not clear which one the
    user means.
    """
    candidates, problems = _make_candidates(offered)
    chosen = StageSelection(config, question, failures, candidates, problems=[*problems, *sorted(set(conflicts))])
    there = {candidate.stage.name for candidate in candidates}
    chosen.left_out += [(name, f"its plugin is not used: {why}") for name, why in failures.items() if name not in there]
    named = {slot: names for slot in Slot if (names := config.core.slots.get(slot.config_name)) is not None}
    for slot in Slot:
        here = [candidate for candidate in candidates if candidate.slot is slot]
        rule = SLOT_RULES[slot]
        mode = config.core.evaluation_mode
        if mode not in rule.modes:
            chosen.left_out += [
                (offer.stage.name, f"slot {slot.config_name} does not exist in {mode} mode") for offer in here
            ]
        elif slot in named:
            chosen.take_named(slot, named[slot], here)
        elif rule.single:
            chosen.take_one(slot, here)
        else:
            chosen.take_included(here)
            if rule.scores_rubric:
                chosen.check_traits_have_stages(slot, here)
    chosen.take_included([candidate for candidate in candidates if candidate.slot is None])
    chosen.check_artifacts()
    chosen.drop_unmet_stages({name for names in named.values() for name in names})
    chosen.check_known_values()
    return chosen


def _make_candidates(offered: Iterable[RegisteredStage]) -> tuple[list[SelectedStage], list[str]]:
    """Create an instance of each stage class, and sort them by name. Stages whose name is offered twice are omitted and
    returned as problems.
    """
    by_name: dict[str, list[RegisteredStage]] = {}
    for registered in offered:
        by_name.setdefault(registered.stage.name, []).append(registered)
    candidates, problems = [], []
    for name in sorted(by_name):
        same = sorted(by_name[name], key=lambda registered: (registered.distribution, registered.version))
        if len(same) > 1:
            owners = " and ".join(f"{registered.distribution} {registered.version}" for registered in same)
            problems.append(
                f"two plugins offer the stage {name} ({owners}); choose one in the configuration with "
                f'[plugins.pick] {name} = "{same[0].distribution}"'
            )
        else:
            only = same[0]
            candidates.append(SelectedStage(only.stage(), only.distribution, only.version, only.slot))
    return candidates, problems


def _describe_missing_stage(name: str, failures: Mapping[str, str], installed: Iterable[str]) -> str:
    """Explain why no stage has the given name, and how to fix it."""
    if name in failures:
        return f"its plugin cannot be used: {failures[name]}"
    if (owner := read_catalog()["stages"].get(name)) is not None:
        return f"it is not installed: {install_command(owner)}"
    return f"no installed plugin offers it{did_you_mean(name, installed)}{not_loaded()}"


def _fills(name: str, slot: Slot) -> bool:
    """Return whether this project has a stage with the given name for `slot`. It need not be installed."""
    return read_catalog()["stage_slots"].get(name) == slot.config_name


def _install_commands(slot: Slot, present: Collection[str] = ()) -> str:
    """Return the commands that install stages for `slot`. Distributions in `present` are omitted."""
    owners = sorted({owner for name, owner in read_catalog()["stages"].items() if _fills(name, slot)} - set(present))
    return " or ".join(dict.fromkeys(map(install_command, owners))) or "install a plugin that offers one"


def _why_not(answer: object) -> str:
    """Return the reason contained in a stage's answer, or a generic sentence if it has none."""
    return getattr(answer, "why", None) or "the stage is not included for this configuration and question"


def _describe_missing_producer(key: AnyKey, left_out: list[str], failures: Mapping[str, str]) -> str:
    """Explain why no selected stage produces an artifact, and how to fix it. `left_out` contains the stages that
    produce the artifact but are not in the plan, and `failures` maps unusable plugins to the reasons.
    """
    if left_out:
        return f"but {left_out[0]}, which produces it, is not in the plan; choose {left_out[0]} under [slots]"
    owner = read_catalog()["artifacts"].get(key.name)
    broken = [f"{name} cannot be used: {why}" for name, why in sorted(failures.items())]
    if owner is not None and not any(read_catalog()["stages"].get(name) == owner for name in failures):
        return f"which {owner} produces: {install_command(owner)}"
    if broken:
        return f"which no installed stage produces; {'; '.join(broken)}"
    return "which no installed stage produces; install a plugin that does, or block the plugin of the stage"


def describe_missing_value(name: str, offered: Collection[str]) -> str:
    """Return a clause such as "which no plugin offers", with the plugin to install or a similar name, for the error
    about a known value that is not offered. `offered` contains the names of those that are.
    """
    known = read_catalog()["known_values"]
    for pattern, (owner, _) in known.items():
        if fnmatchcase(name, pattern):
            return f"which {owner} offers: {install_command(owner)}"
    package, owners = name.partition(".")[0], {pattern.partition(".")[0] for pattern in (*known, *offered)}
    if "." not in name or package in owners or did_you_mean(package, owners, ""):
        return f"which no plugin offers{did_you_mean(name, offered)}"
    return f"which no installed plugin offers: {install_command(package.replace('_', '-'))} (if this is its plugin)"
