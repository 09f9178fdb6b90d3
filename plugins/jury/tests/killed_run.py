"""A run with a jury in a process of its own, which is killed in the middle: `killed_run.py JOURNAL CALLS KILL`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jury_runs import Found, Jury, found

from karenina_core.models.ports import CallInfo, Message

RIGHT: Final = found("BCL2")
FOUND: Final = {
    f"q{number}": {"a": RIGHT, "b": found(None if number % 2 else "BCL2"), "strong": RIGHT} for number in range(8)
}
"""Every second question needs the stronger judge."""
JURY: Final = {"escalate_to": "strong"}


class NotedJury(Jury):
    """A jury that writes each call to a file, and is killed by the call `kill` before it is answered."""

    def __init__(self, calls: Path, kill: str = "") -> None:
        super().__init__(FOUND)
        self._calls, self._kill = calls, kill

    def _fill(self, messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo) -> Found:
        call = f"{info.question_id} {info.judge}"
        if call == self._kill:
            os.kill(os.getpid(), signal.SIGKILL)
        with self._calls.open("a", encoding="utf-8") as file:
            file.write(f"{call}\n")
        return super()._fill(messages, schema, info)


if __name__ == "__main__":
    _, journal, calls, kill = sys.argv
    NotedJury(Path(calls), kill).run("a", "b", "strong", journal=Path(journal), jury=JURY, max_concurrency=1)
