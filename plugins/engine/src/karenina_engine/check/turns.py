"""Checks of the turns that fields and traits read (`turn`), for use before a run and in `karenina check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from karenina_core.artifacts.artifact import Slot
from karenina_core.data.trust import NO_TRUST, Trust
from karenina_core.text import did_you_mean
from karenina_template.question_template import field_options_of
from karenina_toolkit.conversations import MAX_TURNS, TurnChoice, script_entries, texts_in

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.plan import Plan

_NAMES = ("turn", "missing_turn")


def turn_problems(question: Question, trust: Trust = NO_TRUST, plan: Plan | None = None) -> Iterator[tuple[str, str]]:
    """Yield pairs of a message and a field's name (empty for a trait) for each field or trait that reads a turn the
    question cannot have or, with `plan`, that its parsing stage cannot read. Options in a template are not checked if
    the template cannot be loaded, for example because `trust` does not cover its code.
    """
    for place, field, options in _options(question, trust):
        why = _why_not(question, TurnChoice.read(options))
        if why is not None:
            yield f"{place}: {why}", field
        elif field and plan is not None and not TurnChoice.read(options).is_default:
            stages = [stage for stage in plan.stages if stage.slot is Slot.PARSE_TEMPLATE]
            for stage in stages:
                if not getattr(stage.stage, "turns", False):
                    yield (
                        f"{place}: the stage {stage.name} of {stage.distribution} reads only the last turn of a "
                        "conversation; choose another stage for the slot parse_template, or remove `turn`",
                        field,
                    )


def said_texts(question: Question) -> dict[str, str]:
    """Return the texts that the user may send to a model after the question, keyed by place, such as `turn 2` or
    `user.goal`. These are the messages of a script, and all texts of a simulated user.
    """
    script = script_entries(question.extra.get("turns"))
    says = [entry for entry in (script if isinstance(script, list) else ()) if _is_say(entry)]
    texts = {
        f"turn {number}": str(entry["say"] if isinstance(entry, Mapping) else entry)
        for number, entry in enumerate(says, 2)
    }
    user = question.extra.get("user")
    for name, value in user.items() if isinstance(user, Mapping) else ():
        texts[f"user.{name}"] = "\n".join(texts_in(value))
    return texts


def _options(question: Question, trust: Trust) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the place, the field's name (empty for a trait) and the options of each field or trait that reads a
    turn.
    """
    for rubric in (question.rubric, question.dynamic_rubric):
        for trait in rubric.traits if rubric is not None else ():
            if not trait.extra.keys().isdisjoint(_NAMES):
                yield f"trait {trait.name!r}", "", trait.extra
    source = question.answer_template
    if source is None or _NAMES[0] in source:  # which is part of the other name
        for name, options in field_options_of(question, trust).items():
            if not options.keys().isdisjoint(_NAMES):
                yield f"field {name!r}", name, options


def _why_not(question: Question, choice: TurnChoice) -> str | None:
    """Return the reason why the question cannot have the chosen turn, or None if it can. None is also returned for a
    number below 1, or a script with an invalid entry, because the check of plugins' fields reports these.
    """
    if choice.turn in ("last", "all") or (isinstance(choice.turn, int) and choice.turn <= 1):
        return None
    script = script_entries(question.extra.get("turns"))
    says = [entry for entry in (script if isinstance(script, list | tuple) else ()) if _is_say(entry)]
    if "turns" in question.extra and not _is_script(script):
        return None
    if "user" in question.extra:
        return _why_not_with_user(question.extra["user"], choice)
    if not says:
        return f"{choice} does not exist, because the question has no `turns`"
    ids = [entry["id"] for entry in says if isinstance(entry, Mapping) and "id" in entry]
    if choice.turn in ids or (isinstance(choice.turn, int) and choice.turn <= len(says) + 1):
        return None
    last = f"; the last turn is number {len(says) + 1}" if isinstance(choice.turn, int) else ""
    return f"{choice} does not exist{did_you_mean(str(choice.turn), ids) if ids else ''}{last}"


def _why_not_with_user(user: object, choice: TurnChoice) -> str | None:
    """Return the reason why a question with this simulated user cannot have the chosen turn, or None if it can."""
    if isinstance(choice.turn, str):
        return f"{choice} does not exist, because the turns of a simulated user have no ids; write a number"
    most = user.get("max_turns", MAX_TURNS) if isinstance(user, Mapping) else None
    if type(most) is not int or most < 1 or choice.turn <= most:
        return None
    return f"{choice} does not exist; the last turn that the simulated user can have is number {most} (max_turns)"


def _is_script(script: object) -> bool:
    """Return whether a question's `turns` is a list of messages and ways out, which is not empty."""
    entries = script if isinstance(script, list | tuple) else ()
    return bool(entries) and all(_is_say(entry) or (isinstance(entry, Mapping) and "end" in entry) for entry in entries)


def _is_say(entry: object) -> bool:
    """Return whether an entry of a script is a message from the user."""
    return isinstance(entry, str) or (isinstance(entry, Mapping) and "say" in entry)
