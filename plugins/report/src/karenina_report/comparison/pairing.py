"""Pair the questions, judges and answers of two runs, and check that they can be compared."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Final

from karenina_core.data.outcome import Outcome
from karenina_core.errors import ConfigError
from karenina_core.text import compose
from karenina_report.statistics.columns import make_judge_namer
from karenina_toolkit.files_in_results import differ, files_in_result
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_report.runs import Run

Results = list["VerificationResult"]
_MOST_NAMES: Final = 5
RESCORE: Final = (
    "rescore both runs with the same templates and judge prompts (`karenina rescore JOURNAL BENCHMARK "
    "-o RESULTS`, which makes no calls)"
)

SORTED_JSON: Final = json.JSONEncoder(sort_keys=True, default=str)
"""Serializes facts of results, so that equal ones can be counted and compared."""

ASKED: Final = frozenset({"question", "attachments"})
"""The parts of a question that are sent to the models under test. Rescoring does not make other ones comparable."""


@dataclass(slots=True)
class Pairing:
    """The questions of two runs with their results.

    `changed` maps the questions that are not compared to the parts that changed: "template", "truth", "attachments" or
    "question" (its text). With `any_template`, these questions are compared and named in a note. `judges` lists the
    judges to compare, and `judge_name` returns a result's judge. `same_answers` is true if both runs have the same
    stored answers; replicates are then paired. `same_judges` is true if both runs have the same judges.
    """

    questions: dict[str, tuple[Results, Results]] = field(default_factory=dict)
    only_a: list[str] = field(default_factory=list)
    only_b: list[str] = field(default_factory=list)
    changed: dict[str, list[str]] = field(default_factory=dict)
    judges: list[str] = field(default_factory=list)
    judge_name: Callable[[VerificationResult], str] = lambda _result: ""
    same_answers: bool = False
    same_judges: bool = True
    notes: list[str] = field(default_factory=list)


def pair_runs(a: Run, b: Run, *, any_judge: bool = False, any_template: bool = False) -> Pairing:
    """Pair the questions, judges and answers of two runs that can be compared, and list those that cannot. Judges and
    their prompts must be the same unless `any_judge` is set, and templates, ground truths, texts and attachments unless
    `any_template` is set. Raises `ConfigError` if nothing can be compared.
    """
    pairing = Pairing(judge_name=make_judge_namer([a.results, b.results]))
    pairing.notes += _other_settings(a, b)
    _choose_judges(pairing, a, b, any_judge=any_judge)
    ours, theirs = (_by_question(run.results) for run in (a, b))
    pairing.only_a = [id for id in ours if id not in theirs]
    pairing.only_b = [id for id in theirs if id not in ours]
    changed: dict[str, list[str]] = {}
    for id in ours:
        if id in theirs:
            differing = _differing(ours[id], theirs[id])
            if differing:
                changed[id] = differing
            if not differing or any_template:
                chosen = [
                    [result for result in group if pairing.judge_name(result) in pairing.judges]
                    for group in (ours[id], theirs[id])
                ]
                pairing.questions[id] = (chosen[0], chosen[1])
    if not any_template:
        pairing.changed = changed
    elif changed:
        what = " or ".join(dict.fromkeys(name for names in changed.values() for name in names))
        which = ", ".join([*islice(changed, _MOST_NAMES), *(["..."] if len(changed) > _MOST_NAMES else [])])
        pairing.notes.append(f"compared {quantity(len(changed), 'question')} despite a different {what}: {which}")
    if not pairing.questions:
        raise ConfigError([_nothing_in_common(a, b, pairing)])
    pairing.same_answers = _same_answers(pairing.questions.values())
    return pairing


def read_undecided(pairing: Pairing, *, in_favor_of: int) -> Pairing | None:
    """Return a copy of the pairing in which undecided results are correct if the run at index `in_favor_of` (0 or 1)
    has a larger share of results with the same values than the other run, and wrong otherwise, in both runs. Returns
    None if no result is undecided.
    """
    if not any(map(_is_undecided, (result for pair in pairing.questions.values() for side in pair for result in side))):
        return None
    questions = {}
    for id, sides in pairing.questions.items():
        favored, other = (_shares_of_undecided(sides[at]) for at in (in_favor_of, 1 - in_favor_of))
        right = {values for values, share in favored.items() if share > other.get(values, 0)}
        questions[id] = (
            [_decided(result, right) for result in sides[0]],
            [_decided(result, right) for result in sides[1]],
        )
    return replace(pairing, questions=questions)


def _shares_of_undecided(results: Results) -> dict[str, Fraction]:
    """Return how often undecided results have each combination of values (see `_values`). The numbers are shares of all
    results that have a verdict or are undecided.
    """
    total = sum(result.outcome.has_verdict or _is_undecided(result) for result in results)
    counts = Counter(_values(result) for result in results if _is_undecided(result))
    return {values: Fraction(count, total) for values, count in counts.items()}


def _is_undecided(result: VerificationResult) -> bool:
    return result.outcome is Outcome.UNDECIDED


def _decided(result: VerificationResult, right: Collection[str]) -> VerificationResult:
    """Decide an undecided result: correct if its values are in `right`, otherwise wrong. Other results are returned
    unchanged.
    """
    if not _is_undecided(result):
        return result
    return result.model_copy(update={"outcome": Outcome.CORRECT if _values(result) in right else Outcome.WRONG})


def _values(result: VerificationResult) -> str:
    """Return the values that determine the verdict of an undecided result, as JSON. They are the extracted values, the
    known values and the field results. The whole response is added unless all undecided fields were extracted.
    """
    template = result.template
    undecided, extracted = result.undecided_fields(), template.parsed_llm_response or {}
    is_extracted = undecided and extracted.keys() >= set(undecided)
    known = {name: value.value for name, value in (template.known_values or {}).items()}
    response = "" if is_extracted else template.raw_llm_response
    return json.dumps([extracted, known, template.field_results, response], default=str)


def _by_question(results: Iterable[VerificationResult]) -> dict[str, Results]:
    """Return the results by question id."""
    grouped: dict[str, Results] = defaultdict(list)
    for result in results:
        grouped[result.question_id].append(result)
    return grouped


def _choose_judges(pairing: Pairing, a: Run, b: Run, *, any_judge: bool) -> None:
    """Set the judges to compare in `pairing`: those with the same prompts in both runs, or all judges with `any_judge`.
    Without it, raises `ConfigError` if there are none, or if the instructions added to the judges' prompts differ.

    Other judges are named in the pairing's notes.
    """
    ours, theirs = (_prompts(run.results, pairing.judge_name) for run in (a, b))
    if any_judge:
        pairing.judges = [*dict.fromkeys([*ours, *theirs])]
        pairing.same_judges = set(ours) == set(theirs)
        if not pairing.same_judges:
            pairing.notes.append("the runs have different judges, so a difference may come from the judges")
        return
    both = [name for name in ours if name in theirs]
    if not both:
        raise ConfigError(
            [
                f"{a.name} was judged by {', '.join(ours)} and {b.name} by {', '.join(theirs)}, so a difference may "
                "come from the judges; use the same judge for both runs, or use --any-judge to compare "
                "them anyway"
            ]
        )
    added = _added_prompts(a, b)
    changed = [name for name in both if ours[name] != theirs[name]]
    pairing.judges = [] if added else [name for name in both if name not in changed]
    if not pairing.judges:
        what = f"the prompts {', '.join(added)}" if added else "the system prompt"
        raise ConfigError(
            [
                f"{what} of the judge changed between {a.name} and {b.name}, so their verdicts are not comparable. "
                f"If the journals contain replies to the same prompts, {RESCORE}; otherwise, run `karenina "
                "run` again with the journal, which calls only the judge. To compare the runs anyway, use "
                "--any-judge"
            ]
        )
    pairing.notes += [f"the system prompt of the judge {name} changed, so this judge was left out" for name in changed]
    left_out = [name for name in [*ours, *theirs] if name not in both]
    pairing.notes += [
        f"only one run has the judge {name}, so this judge was left out" for name in dict.fromkeys(left_out)
    ]


def _prompts(
    results: Iterable[VerificationResult], judge_name: Callable[[VerificationResult], str]
) -> dict[str, set[str]]:
    """Return the system prompts that each judge had in the results, by the judge's name."""
    prompts: dict[str, set[str]] = defaultdict(set)
    for result in results:
        prompts[judge_name(result)].add(result.metadata.parsing_system_prompt or "")
    return prompts


def _added_prompts(a: Run, b: Run) -> list[str]:
    """Return the judge tasks for which the users added different instructions, or nothing if a run's are not known."""
    ours, theirs = a.journal_info.judge_prompts, b.journal_info.judge_prompts
    if ours is None or theirs is None:
        return []
    return [name for name in dict.fromkeys([*ours, *theirs]) if ours.get(name) != theirs.get(name)]


def _other_settings(a: Run, b: Run) -> list[str]:
    """Return notes about what may explain differences between the runs: another content of the benchmark file, other
    settings that can change results, and other versions of stages that both have.
    """
    notes = []
    if a.journal_info.content and b.journal_info.content and a.journal_info.content != b.journal_info.content:
        notes.append("the content of the benchmark file differs between the runs, so traits may have changed")
    ours, theirs = a.journal_info.settings, b.journal_info.settings
    if ours is not None and theirs is not None:
        names = [name for name in dict.fromkeys([*ours, *theirs]) if ours.get(name) != theirs.get(name)]
        names = _changing_results(name for name in names if name not in _RUN_SETTINGS)
        if names:
            notes.append(f"the runs have different settings: {', '.join(names)}")
    versions = [{(name, distribution): version for name, distribution, version in run.stages} for run in (a, b)]
    others = sorted(key for key in versions[0].keys() & versions[1].keys() if versions[0][key] != versions[1][key])
    if others:
        names = [f"{key[0]} ({key[1]} {versions[0][key]} and {versions[1][key]})" for key in others]
        notes.append(f"the runs used different versions of these stages, whose prompts may differ: {', '.join(names)}")
    return notes


_RUN_SETTINGS: Final = frozenset({"answering_models", "parsing_models", "replicate_count", "prompt_config", "run_name"})


def _changing_results(names: Iterable[str]) -> list[str]:
    """Return the settings that can change results. Settings without an installed owner are included."""
    from karenina_core.config import all_settings

    settings = list(names)
    owned = all_settings() if settings else {}
    return [name for name in settings if name not in owned or owned[name].changes_results]


_FACTS: Final[Mapping[str, Callable[[VerificationResult], Hashable]]] = {
    "question": lambda result: compose(result.metadata.question_text),
    "template": lambda result: result.metadata.template_id,
    "truth": lambda result: result.metadata.raw_answer,
    "extracted truth": lambda result: _frozen(result.template.parsed_gt_response),
}
"""The parts of a question that are compared."""


def _differing(ours: Results, theirs: Results) -> list[str]:
    """Return the parts of a question that differ: "question", "template", "truth" or "attachments". A part is only
    compared if both runs recorded it.
    """
    differing = []
    for name, fact in _FACTS.items():
        recorded = {value for result in ours if (value := fact(result)) is not None}
        if recorded and (others := {value for result in theirs if (value := fact(result)) is not None}):
            differing += [name] if recorded != others else []
    seen = [{tuple(sorted(files_in_result(result).items())) for result in group} for group in (ours, theirs)]
    if any(differ(dict(our), dict(their)) for our in seen[0] for their in seen[1]):
        differing.append("attachments")
    return list(dict.fromkeys("truth" if name == "extracted truth" else name for name in differing))


def _frozen(value: object) -> str | None:
    """Serialize a value as JSON, so that it is hashable. None stays None."""
    return None if value is None else SORTED_JSON.encode(value)


def _same_answers(questions: Iterable[tuple[Results, Results]]) -> bool:
    """Return whether all answers to the same question and replicate are equal in both runs, and not all empty. Returns
    False if the runs share no replicate.
    """
    some = False
    for ours, theirs in questions:
        answers = {our.metadata.replicate or 1: our.template.raw_llm_response for our in ours}
        for their in theirs:
            other = answers.get(their.metadata.replicate or 1)
            if other is not None:
                if other != their.template.raw_llm_response:
                    return False
                some = some or bool(other)
    return some


def _nothing_in_common(a: Run, b: Run, pairing: Pairing) -> str:
    """Return the error message for two runs without comparable questions."""
    if pairing.changed:
        what = " and ".join(dict.fromkeys(f"the {name}" for names in pairing.changed.values() for name in names))
        asked = all(names <= ASKED for names in map(set, pairing.changed.values()))
        return (
            f"{what} changed between {a.name} and {b.name} for every question in both runs, so the questions are "
            f"not comparable. {'' if asked else f'To make them comparable, {RESCORE}. '}To compare them anyway, use "
            "--any-template"
        )
    return f"{a.name} and {b.name} have no questions in common; questions are paired by ID"
