"""What a loaded file holds that has no effect, and which of its traits cannot be scored: one warning each."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from karenina_benchmark.checkpoint_traits import REFERENCE_PROPERTY
from karenina_core.data.rubrics import CallableRubricTrait, RubricTrait, UnknownTrait
from karenina_core.text import join_problems

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_benchmark.content import BenchmarkContent
    from karenina_core.data.question import Question

logger = logging.getLogger("karenina")

_PARTS = ("answer", "code", "question", "rating", "creator")
"""What is kept of a part of a file whose other values are read."""
_READ = frozenset({REFERENCE_PROPERTY})
PICKLED = "the file holds only a pickled function, which is never loaded"

Found = dict[str, dict[str, None]]
"""Names or reasons, each with the places where they were found."""


def log_warnings(
    benchmark: BenchmarkContent, path: Path, questions: Iterable[Question], unread: Iterable[str] = ()
) -> None:
    """Log what of the file of a benchmark is kept without effect, and which traits of it cannot be scored.

    `unread` are the ids of further questions that hold something without effect, and are not read for it.
    """
    unknown: Found = {name: {} for name in _names(benchmark.unread)}
    for id in unread:
        unknown.setdefault("`unread`", {})[f"question {id}"] = None
    unused: Found = {}
    unscorable: Found = {}

    def look_at(traits: Iterator[RubricTrait], of: str) -> None:
        for trait in traits:
            place = f"trait {trait.name!r}{of}"
            for name in _names(trait.unread) if not isinstance(trait, UnknownTrait) else ():
                known = name in type(trait).model_fields
                (unused if known else unknown).setdefault(name, {})[place] = None
            reason = _why_unscorable(trait)
            if reason is not None:
                unscorable.setdefault(reason, {})[f"{trait.name!r}{of}"] = None

    look_at(_traits(benchmark.global_rubric, benchmark.dynamic_rubric), "")
    for question in questions:
        for name in _names(question.unread):
            unknown.setdefault(name, {})[f"question {question.id}"] = None
        look_at(_traits(question.rubric, question.dynamic_rubric), f" of question {question.id}")
    if unknown:
        logger.warning("%s: not known, kept, and without effect: %s", path, join_problems(_listed(unknown)))
    if unused:
        logger.warning("%s: kept, and not used by traits of this kind: %s", path, join_problems(_listed(unused)))
    if unscorable:
        count = sum(len(names) for names in unscorable.values())
        reasons = "; ".join(f"{_some_of(names)} ({why})" for why, names in unscorable.items())
        logger.warning("%s: %d rubric trait%s cannot be scored: %s", path, count, "s" * (count > 1), reasons)


def _traits(*rubrics: Any) -> Iterator[RubricTrait]:
    for rubric in rubrics:
        yield from rubric.traits if rubric is not None else ()


def _why_unscorable(trait: RubricTrait) -> str | None:
    if isinstance(trait, UnknownTrait):
        return trait.unscorable or f"no installed plugin knows traits of type {trait.type!r}"
    return PICKLED if isinstance(trait, CallableRubricTrait) and trait.pickled is not None else None


def _names(unread: Mapping[str, Any]) -> Iterator[str]:
    """Return the names of what is lost; JSON-LD's own keys, which begin with @, are not."""
    for key, value in unread.items():
        if key.startswith("@") or value is None:
            continue
        if key == "properties" and isinstance(value, list):
            yield from (name for name in map(_name_of, value) if name not in _READ)
        elif key in _PARTS and isinstance(value, Mapping):
            yield from _names({name: one for name, one in value.items() if (key, name) != ("creator", "name")})
        else:
            yield key


def _name_of(entry: Any) -> str:
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return name if isinstance(name, str) else "additionalProperty"


def _listed(found: Found) -> list[str]:
    return [f"{name} ({_some_of(places)})" if places else name for name, places in found.items()]


def _some_of(places: Iterable[str]) -> str:
    """Return the first places, and how many more there are."""
    shown = list(places)
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")
