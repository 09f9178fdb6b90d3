"""Prompt tasks and their assembly: what a judge is told, in which order, and how untrusted text is fenced.

A stage declares what it asks models as `PromptTask`s. A prompt has a constant part first (the task's own words, what
plugins and the user add), so that servers can reuse it, and the item's part last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from karenina_core.models.ports import Message


@dataclass(frozen=True, slots=True)
class PromptTask:
    """One thing that a stage asks of a model.

    `name` is the key in `prompt_config` under which users add instructions. `instructions` are the constant words of
    the system message. `shows_truth` marks the few tasks whose requests hold ground truth by design. `family` is a
    second key in `prompt_config`, that of a group of tasks; what users add under it comes first.
    """

    name: str
    instructions: str
    shows_truth: bool = False
    family: str | None = None


def fence_mark(text: str) -> str:
    """The mark that fences `text`: the first 16 hex digits of its SHA-256.

    Whoever wrote the text cannot foresee it (it would have to contain its own digest), and the same text always gets
    the same mark, so replies can be cached.
    """
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def fence(text: str, label: str) -> str:
    """`text` between two marks that it cannot imitate, named as data."""
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
    """Return one prompt: the model's own system prompt, what the task, plugins and the user add, then the item."""
    own = user_instructions or {}
    keys = dict.fromkeys(key for key in (task.family, task.name) if key is not None)
    system = _system(system_prompt or "", task.instructions, *added, *[own[key] for key in keys if key in own])
    return [system, Message.user(user)] if system is not None else [Message.user(user)]


@lru_cache(maxsize=256)
def _system(*parts: str) -> Message | None:
    """The constant part of a prompt, which is the same for all items; None where nothing is said in it."""
    text = "\n\n".join(part for one in parts if (part := one.strip()))
    return Message.system(text) if text else None
