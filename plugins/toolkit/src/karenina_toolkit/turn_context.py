"""`TurnContext`: a stage's access to a single turn of a conversation, as if it were the item's whole answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.stages.context import VerificationContext

if TYPE_CHECKING:
    from karenina_core.artifacts.artifact import ArtifactKey
    from karenina_core.data.question import Question
    from karenina_toolkit.conversations import TurnView

T = TypeVar("T")


class TurnContext(VerificationContext):
    """A context in which the question and the answer are those of a single turn.

    A stage that handles several turns of an item creates one for each turn. Values that the stage sets for a turn are
    merged with those it has set for the item's other turns (`merge`). `already` contains the names that the stage has
    set. All of its contexts share it.
    """

    __slots__ = ("_already", "_question", "_shown")

    def __init__(self, whole: VerificationContext, view: TurnView, already: set[str]) -> None:
        super().__init__(whole._state, whole._planned)
        self.own_calls = whole.calls
        self._already = already
        self._question = whole.question.model_copy(update={"question": view.question})
        self._shown: Mapping[str, object] = {
            Keys.RAW_LLM_RESPONSE.name: view.response,
            Keys.TRACE_MESSAGES.name: view.trace,
            Keys.FINAL_AI_MESSAGE.name: view.final,
        }

    @property
    def question(self) -> Question:
        """The question, with the user's message in this turn as its text, and the turns before it as context."""
        return self._question

    def get_artifact(self, key: ArtifactKey[T]) -> T:
        """Return the value of an artifact. Artifacts that describe the answer have the turn's values."""
        value = super().get_artifact(key)
        return cast("T", self._shown[key.name]) if key.name in self._shown else value

    def find_artifact(self, key: ArtifactKey[T]) -> T | None:
        """Return the value of an artifact, or None if it was not set. Artifacts that describe the answer have the
        turn's values.
        """
        value = super().find_artifact(key)
        return cast("T | None", self._shown[key.name]) if key.name in self._shown else value

    def set_artifact(self, key: ArtifactKey[T], value: T) -> None:
        """Set an artifact. If it was already set for another turn, merge the values."""
        before = self._state.artifacts.get(key.name) if key.name in self._already else None
        super().set_artifact(key, cast("T", merge(before, value)))
        self._already.add(key.name)

    def set_result_field(self, name: str, value: object) -> None:
        """Set a field of the result. If it was already set for another turn, merge the values."""
        before = self._fields_for(name).get(name) if name in self._already else None
        super().set_result_field(name, merge(before, value))
        self._already.add(name)

    def offer_result_field(self, name: str, value: object) -> None:
        """Set a field of the result unless an earlier stage has set it. If it was set for another turn, merge the
        values.
        """
        if name in self._already or name not in self._fields_for(name):
            self.set_result_field(name, value)


def assistant_text(context: VerificationContext, text: str) -> str:
    """Return the answer as a program should read it, if a judge reads it as `text`. In a conversation, this is the
    assistant's text without the user's. Otherwise, it is `text` itself.
    """
    return context.get_artifact(Keys.RAW_LLM_RESPONSE) if isinstance(context, TurnContext) else text


def merge(before: Any, more: Any) -> Any:
    """Combine the value that a result field got in earlier turns, `before`, with that of a new turn. Mappings and lists
    are merged, numbers are added, strings that differ are joined, and booleans are true if either is. For other types,
    the new value wins, unless it is None.
    """
    if before is None or more is None:
        return before if more is None else more
    if isinstance(before, bool) and isinstance(more, bool):
        return before or more
    if isinstance(before, Mapping) and isinstance(more, Mapping):
        return {**before, **{key: merge(before.get(key), value) for key, value in more.items()}}
    if isinstance(before, str) and isinstance(more, str):
        return before if before == more else f"{before}\n\n{more}"
    if isinstance(before, list | tuple) and isinstance(more, list | tuple):
        return [*before, *more]
    if isinstance(before, int | float) and isinstance(more, int | float):
        return before + more
    return more
