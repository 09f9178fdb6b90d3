"""Prompt tasks and the assembly of prompts.

Stages declare their prompts as `PromptTask`s. A prompt starts with its constant part (instructions from the task, from
plugins and from the user), which servers can cache, and ends with the item's part. Untrusted text in the item's part is
put between tags by `karenina_toolkit.fences`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import Message


class PromptTask(NamedTuple):
    """A kind of prompt that a stage sends.

    `name` is the key in `prompt_config` for the user's own instructions, and `instructions` is the constant text of the
    system message. `shows_truth` marks the few tasks whose requests contain ground truth by design. `family` is another
    key in `prompt_config`, which applies to a group of tasks. Its instructions come first. `examples` are pairs of an
    item's part and the correct reply, sent as chat turns before the actual item.
    """

    name: str
    instructions: str
    shows_truth: bool = False
    family: str | None = None
    examples: tuple[tuple[str, str], ...] = ()


def assemble(
    task: PromptTask,
    user: str,
    *,
    system_prompt: str | None = None,
    added: Sequence[str] = (),
    user_instructions: Mapping[str, str] | None = None,
    attachments: tuple[Attachment, ...] = (),
) -> list[Message]:
    """Return the messages of a prompt: the system prompt with the instructions of the task, of plugins (`added`) and of
    the user (the entries of `user_instructions` for the task and its family), the examples, and the item's part,
    `user`, with the `attachments`.

    `user_instructions` is the user's `prompt_config`. Without instructions, there is no system message. `user` is
    inserted unchanged, so fence any untrusted text in it. All messages but the last are constant.
    """
    own = user_instructions or {}
    names = dict.fromkeys(name for name in (task.family, task.name) if name is not None) if own else ()
    of_user = [own[name] for name in names if name in own]
    constant = _constant_messages(task.examples, system_prompt or "", task.instructions, *added, *of_user)
    return [*constant, Message("user", user, attachments=attachments)]


@lru_cache(maxsize=256)
def _constant_messages(examples: tuple[tuple[str, str], ...], *parts: str) -> tuple[Message, ...]:
    """Return the system message made of `parts`, unless they are all blank, followed by the examples' chat turns."""
    text = "\n\n".join(part for raw in parts if (part := raw.strip()))
    turns = [turn for asked, reply in examples for turn in (Message.user(asked), Message.assistant(reply))]
    return tuple(replace(message, is_constant=True) for message in ([Message.system(text)] if text else []) + turns)
