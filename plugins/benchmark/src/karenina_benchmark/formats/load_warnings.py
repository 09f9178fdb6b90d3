"""Warnings about content of a file that has no effect, and about traits that cannot be scored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from karenina_benchmark.content import FINISHED
from karenina_benchmark.formats.checkpoint_traits import REFERENCE_PROPERTY
from karenina_core.config.setting_owners import not_loaded
from karenina_core.data.rubrics import CallableRubricTrait, RubricTrait, UnknownTrait, trait_kinds
from karenina_core.text import did_you_mean, join_problems

if TYPE_CHECKING:
    from karenina_benchmark.content import BenchmarkContent
    from karenina_core.data.question import Question

_PARTS = ("answer", "code", "question", "rating", "creator")
"""Keys of `unread` that contain the unknown content of known parts."""
_READ_PROPERTIES = frozenset({REFERENCE_PROPERTY, FINISHED})
_SCENARIO: Final = "karenina:Scenario"
_JUDGED: Final = frozenset({"verify_result", "parsed", "accumulated", "node_results"})
"""The values of a scenario's state that come from the templates and traits of its nodes."""
PICKLED = "the file contains only a pickled function, which is never loaded"

Found = dict[str, dict[str, None]]
"""The places where each name or reason occurs. The inner dicts serve as ordered sets."""


def find_warnings(
    benchmark: BenchmarkContent, questions: Iterable[Question], unread: Iterable[str] = ()
) -> tuple[list[str], list[str]]:
    """Return warnings about content that has no effect or is left out of runs, and about traits that cannot be scored,
    as two lists. The second has at most one warning, which covers all traits. `unread` contains the ids of questions
    with `unread` content that are not in `questions`. Nothing is logged.
    """
    scenarios = list_scenarios(benchmark)
    parts = {"hasPart"} if scenarios else set()
    unknown: Found = {name: {} for name in _unknown_names(benchmark.unread) if name not in parts}
    for id in unread:
        unknown.setdefault("`unread`", {})[f"question {id}"] = None
    unused: Found = {}
    unscorable: Found = {}

    def check_traits(traits: Iterator[RubricTrait], of: str) -> None:
        """Collect the unknown and unused names of traits, and the reasons why traits cannot be scored."""
        for trait in traits:
            place = f"trait {trait.name!r}{of}"
            for name in _unknown_names(trait.unread) if not isinstance(trait, UnknownTrait) else ():
                known = name in type(trait).model_fields
                (unused if known else unknown).setdefault(name, {})[place] = None
            reason = why_unscorable(trait)
            if reason is not None:
                unscorable.setdefault(reason, {})[f"{trait.name!r}{of}"] = None

    check_traits(_traits(benchmark.global_rubric, benchmark.dynamic_rubric), "")
    for question in questions:
        for name in _unknown_names(question.unread):
            unknown.setdefault(name, {})[f"question {question.id}"] = None
        check_traits(_traits(question.rubric, question.dynamic_rubric), f" of question {question.id}")
    warnings: list[str] = []
    if scenarios:
        warnings.append(
            f"the file contains {describe_scenarios(scenarios)}; scenarios are kept in the file but left out of runs; "
            "write them as questions with `turns`"
        )
    unfinished = benchmark.unfinished_ids()
    if unfinished:
        drafts = f"{len(unfinished)} question{'s are' if len(unfinished) > 1 else ' is'}"
        warnings.append(
            f"{drafts} marked `finished: false` and left out of runs: {_first_places(unfinished)}; to run such "
            "questions anyway, name them with --question"
        )
    if unknown:
        warnings.append(f"unknown content is kept but has no effect: {join_problems(_with_places(unknown))}")
    if unused:
        warnings.append(
            f"some traits contain values that are not used by their type: {join_problems(_with_places(unused))}"
        )
    if not unscorable:
        return warnings, []
    count = sum(len(names) for names in unscorable.values())
    reasons = "; ".join(f"{_first_places(names)} ({why})" for why, names in unscorable.items())
    return warnings, [f"{count} rubric trait{'s' * (count > 1)} cannot be scored: {reasons}"]


def list_scenarios(benchmark: BenchmarkContent) -> list[Mapping[str, Any]]:
    """Return the scenarios in a checkpoint from the reference project. They are unknown content here."""
    return [part for part in _objects(benchmark.unread.get("hasPart")) if part.get("@type") == _SCENARIO]


def describe_scenarios(scenarios: Sequence[Mapping[str, Any]]) -> str:
    """Describe scenarios for a message: their number and, for each reason why `turns` cannot express some of them, the
    names of the first three.
    """
    names_by_reason: dict[str, list[str]] = {}
    for scenario in scenarios:
        names_by_reason.setdefault(_describe_scenario(scenario), []).append(str(scenario.get("name")))
    reasons = [f"{_first_places(names)} ({reason})" for reason, names in names_by_reason.items()]
    return f"{len(scenarios)} scenario{'s' * (len(scenarios) > 1)} that cannot be run: {join_problems(reasons)}"


def _describe_scenario(scenario: Mapping[str, Any]) -> str:
    """Return the reasons why a question with `turns` cannot express a scenario, or a remark that it can."""
    edges, nodes = _objects(scenario.get("edges")), scenario.get("nodes")
    checks = [check for edge in edges for check in as_list(edge.get("condition"))]
    paths = sorted({str(check.get("field") if isinstance(check, Mapping) else check) for check in checks})
    judged = [path for path in paths if path.partition(".")[0] in _JUDGED]
    others = [path for path in paths if path not in judged]
    reasons = []
    if judged:
        reasons.append(
            f"the next turn depends on {_first_places(judged)}, but answers are judged only after the conversation"
        )
    if others:
        reasons.append(f"the next turn depends on {_first_places(others)}, which a condition of `turns` cannot test")
    if any(edge.get("conditionSource") for edge in edges):
        reasons.append("the next turn depends on Python code")
    if any(edge.get("handover") for edge in edges) or any(
        node.get("agentIdentity")
        or node.get("toolFilter")
        or any(override.get("answering_model") for override in _objects(node.get("modelOverride")))
        for node in _objects(list(nodes.values()) if isinstance(nodes, Mapping) else nodes)
    ):
        reasons.append("its turns have different models, tools or histories")
    return "; ".join(reasons) or "no edge has a condition, so `turns` can express it"


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a value that is a list or a single object."""
    return [item for item in as_list(value) if isinstance(item, Mapping)]


def as_list(value: Any) -> list[Any]:
    """Return a value as a list, because JSON-LD allows a single value instead of a list of one."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _traits(*rubrics: Any) -> Iterator[RubricTrait]:
    """Yield the traits in `rubrics`, some of which may be None."""
    for rubric in rubrics:
        yield from rubric.traits if rubric is not None else ()


def why_unscorable(trait: RubricTrait) -> str | None:
    """Return the reason why the installed plugins cannot score a trait, or None if they can."""
    if isinstance(trait, UnknownTrait):
        return trait.unscorable or (
            "no installed plugin provides traits of type "
            f"{trait.type!r}{did_you_mean(trait.type, trait_kinds())}{not_loaded()}"
        )
    return PICKLED if isinstance(trait, CallableRubricTrait) and trait.pickled is not None else None


def _unknown_names(unread: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of unknown content, including the content of the parts in `_PARTS`. Null values, properties that
    are read elsewhere (such as `finished`), and JSON-LD's own keys starting with @ are skipped.
    """
    for key, value in unread.items():
        if key.startswith("@") or value is None:
            continue
        if key == "properties" and isinstance(value, list):
            yield from (name for name in map(_property_name, value) if name not in _READ_PROPERTIES)
        elif key in _PARTS and isinstance(value, Mapping):
            yield from _unknown_names(
                {name: item for name, item in value.items() if (key, name) != ("creator", "name")}
            )
        else:
            yield key


def _property_name(entry: Any) -> str:
    """Return a property's name, or `additionalProperty` if it has none."""
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return name if isinstance(name, str) else "additionalProperty"


def _with_places(places_by_name: Found) -> list[str]:
    """Return each name with the first few places where it occurs."""
    return [f"{name} ({_first_places(places)})" if places else name for name, places in places_by_name.items()]


def _first_places(places: Iterable[str]) -> str:
    """Return the first three places, and the number of further places."""
    shown = list(places)
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")
