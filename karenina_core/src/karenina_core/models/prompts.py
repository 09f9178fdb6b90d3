"""Prompt tasks, the assembly of prompts, and the fences around untrusted text.

Stages declare their prompts as `PromptTask`s. A prompt begins with its constant part (the instructions of the task, of
plugins and of the user), so that servers can cache it, and ends with the item's part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from karenina_core.models.ports import Message
from karenina_core.models.special_tokens import break_special_tokens


@dataclass(frozen=True, slots=True)
class PromptTask:
    """One kind of prompt of a stage.

    `name` is the key in `prompt_config` under which users add instructions. `instructions` are the constant text of the
    system message. `shows_truth` marks the few tasks whose requests contain ground truth by design. `family` is the key
    in `prompt_config` of a group of tasks; instructions under it come before those under `name`. `examples` are worked
    examples, each the item's part of a prompt and its reply; they are sent as turns of a chat, before the item's part.
    """

    name: str
    instructions: str
    shows_truth: bool = False
    family: str | None = None
    examples: tuple[tuple[str, str], ...] = ()


def fence_mark(text: str) -> str:
    """Return the mark that fences `text`: the first 16 hexadecimal digits of its SHA-256.

    A text cannot contain its own mark (it would have to contain its own digest), and the same text always gets the same
    mark, so that replies can be cached.
    """
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def fence(text: str, label: str) -> str:
    """Return `text` between two tags named `label`, with a mark that the text cannot imitate.

    Special tokens in it are broken, so that it cannot end its turn of a chat either.
    """
    text = break_special_tokens(text)
    mark = fence_mark(text)
    return f"<{label} {mark}>\n{text}\n</{label} {mark}>"


def assemble(
    task: PromptTask,
    user: str,
    *,
    system_prompt: str | None = None,
    added: Sequence[str] = (),
    user_instructions: Mapping[str, str] | None = None,
) -> list[Message]:
    """Return a prompt: the model's system prompt, all instructions, the examples, and the item's part."""
    own = user_instructions or {}
    keys = dict.fromkeys(key for key in (task.family, task.name) if key is not None)
    system = _system(system_prompt or "", task.instructions, *added, *[own[key] for key in keys if key in own])
    turns = [turn for asked, reply in task.examples for turn in (Message.user(asked), Message.assistant(reply))]
    return [*([system] if system is not None else []), *turns, Message.user(user)]


@lru_cache(maxsize=256)
def _system(*parts: str) -> Message | None:
    """Return the system message of a prompt, which is the same for all items; None if it would be empty."""
    text = "\n\n".join(part for one in parts if (part := one.strip()))
    return Message.system(text) if text else None
