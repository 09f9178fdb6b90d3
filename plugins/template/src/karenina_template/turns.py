"""The turns of a conversation that template fields read, and how they are filled in and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from karenina_template.templates.primitives import Undecided
from karenina_toolkit.conversations import Conversation, TurnChoice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karenina_template.templates import BaseAnswer, BoundTemplate


def turn_choices(bound: BoundTemplate) -> Mapping[str, TurnChoice]:
    """Return the turn that each verified field reads, keyed by field. Fields with a known value are not included."""
    rules = bound.template.key.rules
    return {name: TurnChoice.read(rule.options) for name, rule in rules.items() if rule.source is None}


def field_turns(bound: BoundTemplate, conversation: Conversation) -> dict[str, int | str]:
    """Return the turn that each verified field reads, keyed by field: its number or, if there is no such turn or the
    field reads all of them, what the field declares, such as "all".
    """
    return {
        name: turn.number if (turn := conversation.find(choice.turn)) is not None else choice.turn
        for name, choice in turn_choices(bound).items()
    }


def group_by_turn(bound: BoundTemplate, conversation: Conversation) -> dict[TurnChoice, list[str]]:
    """Return the fields that a judge fills, grouped by the part of the conversation to show to the judge. Fields whose
    turn did not take place are omitted. Fields without a rule belong to the last turn.
    """
    groups: dict[TurnChoice, list[str]] = {}
    choices = turn_choices(bound)
    for name in bound.judge_fields:
        choice = choices.get(name, TurnChoice())
        if conversation.text_of(choice) is not None:
            groups.setdefault(conversation.normalized(choice), []).append(name)
    return groups


def read_turns(bound: BoundTemplate, answer: BaseAnswer, conversation: Conversation) -> dict[str, str]:
    """Change `answer` so that each field reads the assistant's text in its turn, and return the reason for each field
    that is ignored because its turn was left out, keyed by field. A field that `missing_turn` makes wrong fails
    instead. One whose turn is missing for another reason is undecided, and so are all if all would be ignored.
    """
    texts: dict[str, str] = {}
    settled: dict[str, Undecided | Literal[False]] = {}
    left_out: dict[str, str] = {}
    for name, choice in turn_choices(bound).items():
        text = conversation.text_of(choice)
        if text is not None:
            texts[name] = text
        elif choice.missing_is_wrong:
            settled[name] = False
        elif conversation.is_left_out(choice):
            left_out[name] = conversation.why_not(choice)
        else:
            settled[name] = Undecided(conversation.why_not(choice))
    key = bound.template.key.without(left_out) if left_out else bound.template.key
    if key is None:
        key = bound.template.key
        settled |= {name: Undecided(why) for name, why in left_out.items()}
        left_out = {}
    answer.settle(key, texts, settled)
    return left_out
