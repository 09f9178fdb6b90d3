"""`TurnContext`: a stage's access to one turn of a conversation, as if it were the item's whole answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.stages.context import VerificationContext

if TYPE_CHECKING:
    from karenina_core.artifacts.artifact import ArtifactKey
    from karenina_core.data.question import Question
    from karenina_toolkit.conversations import TurnView

T = TypeVar("T")


class TurnContext(VerificationContext):
    """A context in which the question and the answer are those of one turn.

    A stage that works on several turns of an item makes one for each. What it sets for a turn is added to what it has
    set for the item's other turns (`merge`); `already` contains the names that it has set, and is shared by its
    contexts.
    """

    __slots__ = ("_already", "_question", "_shown")

    def __init__(self, whole: VerificationContext, view: TurnView, already: set[str]) -> None:
        super().__init__(whole._state, whole._planned)
        self.calls = whole.calls
        self._already = already
        self._question = whole.question.model_copy(update={"question": view.question})
        self._shown: Mapping[str, object] = {
            Keys.RAW_LLM_RESPONSE.name: view.response,
            Keys.TRACE_MESSAGES.name: view.trace,
            Keys.FINAL_AI_MESSAGE.name: view.final,
        }

    @property
    def question(self) -> Question:
        """The question, with the text of the user's message in this turn, and the turns before it as context."""
        return self._question

    def get_artifact(self, key: ArtifactKey[T]) -> T:
        """Return an artifact's value; the answer's are those of the turn."""
        value = super().get_artifact(key)
        return cast("T", self._shown[key.name]) if key.name in self._shown else value

    def find_artifact(self, key: ArtifactKey[T]) -> T | None:
        """Return an artifact's value, or None if it was not set; the answer's are those of the turn."""
        value = super().find_artifact(key)
        return cast("T | None", self._shown[key.name]) if key.name in self._shown else value

    def set_artifact(self, key: ArtifactKey[T], value: T) -> None:
        """Create an artifact, or add to its value if it was set for another turn."""
        before = self._state.artifacts.get(key.name) if key.name in self._already else None
        super().set_artifact(key, cast("T", merge(before, value)))
        self._already.add(key.name)

    def set_result_field(self, name: str, value: object) -> None:
        """Set a field of the result, or add to its value if it was set for another turn."""
        before = self._fields_for(name).get(name) if name in self._already else None
        super().set_result_field(name, merge(before, value))
        self._already.add(name)

    def offer_result_field(self, name: str, value: object) -> None:
        """Set a field of the result unless an earlier stage has set it, or add to its value for another turn."""
        if name in self._already or name not in self._fields_for(name):
            self.set_result_field(name, value)


def assistant_text(context: VerificationContext, text: str) -> str:
    """Return what a program reads of an answer that a judge reads as `text`.

    In a conversation, this is the assistant's text, without the user's; otherwise, it is `text` itself.
    """
    return context.get_artifact(Keys.RAW_LLM_RESPONSE) if isinstance(context, TurnContext) else text


def merge(before: Any, more: Any) -> Any:
    """Return the value for several turns: the entries of mappings and lists, sums, texts one after another, or whether
    one of them is true.
    """
    if before is None or more is None:
        return before if more is None else more
    if isinstance(before, bool) and isinstance(more, bool):
        return before or more
    if isinstance(before, Mapping) and isinstance(more, Mapping):
        return {**before, **{key: merge(before.get(key), value) for key, value in more.items()}}
    if isinstance(before, str) and isinstance(more, str):
        return before if before == more else f"{before}\n\n{more}"
    if isinstance(before, Sequence) and isinstance(more, Sequence) and not isinstance(more, str):
        return [*before, *more]
    if isinstance(before, int | float) and isinstance(more, int | float):
        return before + more
    return more
