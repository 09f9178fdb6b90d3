"""A trace as text, for judges and for people."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from karenina_toolkit.traces.formats import convert_recording

if TYPE_CHECKING:
    from karenina_toolkit.traces.formats import Recording

CONTENT_MARK = "| "
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:/-]+")


def render_trace(trace: Recording, *, reasoning: bool = False) -> str:
    """`trace` as text: a heading such as `[2] assistant` for each message, and below it the content.

    Every line of content, whatever it holds and however its lines are broken, begins with `| `, and no heading does:
    so nothing that was said can pass for the heading of another message. Calls of tools have headings of their own.
    Thoughts outside the answer are left out unless `reasoning` is set. Raises `TraceFormatError`.
    """
    lines: list[str] = []
    for number, message in enumerate(convert_recording(trace), 1):
        who = f"[{number}] {message.role}"
        if message.role == "tool":
            who += f" {_name(message.tool_name)} {'failed' if message.is_error else 'answered'}"
        if reasoning and message.reasoning:
            lines += [f"{who} thinks", _content(message.reasoning)]
        if message.content or not message.tool_calls:
            lines += [who, _content(message.content)]
        for call in message.tool_calls:
            arguments = json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
            lines += [f"{who} calls {_name(call.name)}", _content(arguments)]
    return "\n".join(line for line in lines if line)


def _content(text: str) -> str:
    # splitlines knows more line breaks than \n, and so may whoever reads the text.
    return "\n".join(CONTENT_MARK + line for line in text.splitlines())


def _name(name: str | None) -> str:
    """A tool's name, which a model wrote: quoted where it could break the heading."""
    if not name:
        return "(unnamed)"
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)
