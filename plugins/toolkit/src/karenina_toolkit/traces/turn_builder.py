"""One turn of the assistant, collected from blocks, parts or items that stand one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from karenina_core.models.ports import Message, ToolCall


class TurnBuilder:
    """What the assistant said, thought and called since something else was last said; `close` makes it a message."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.text = ""
        self._calls: list[ToolCall] = []
        self._thoughts: list[str] = []
        self._begun = False

    def begin(self) -> None:
        """It is the assistant's turn, even if nothing follows: an empty message is one too."""
        self._begun = True

    def say(self, text: str, *, goes_on: bool = False) -> None:
        """Take in text, on a new line unless it goes on where the last text stopped."""
        self._begun = True
        self.text += ("" if goes_on or not self.text else "\n") + text

    def think(self, thought: str) -> None:
        """Take in what was thought outside the answer."""
        self._begun = True
        self._thoughts.append(thought)

    def call(self, call: ToolCall) -> None:
        """Take in a call of a tool."""
        self._begun = True
        self._calls.append(call)

    def close(self) -> Iterator[Message]:
        """The message of the turn, if it was one; the next turn begins empty."""
        if self._begun:
            thoughts = "\n".join(thought for thought in self._thoughts if thought)
            yield Message.assistant(self.text, self._calls, thoughts or None)
        self._clear()
