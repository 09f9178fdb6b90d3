"""A fake Claude for the Claude CLI, based on the shared fake of its server: `... FAKE_ANTHROPIC.PY` prints its URL.

An agent reads the file `register`, writes down what it found, and says so. Without tools it says the last code word
that it was shown, and asked for JSON it gives it. The first request meets a server that is overloaded. Replies come
as streams of events.
"""

from __future__ import annotations

import json
import re
from typing import Any

from claude_server import serve


def turn(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks of the reply to a request."""
    shown = json.dumps(body["messages"])
    word = (re.findall(r"QX\d+Z", shown) or ["none"])[-1]
    tools = {tool["name"] for tool in body.get("tools", [])}
    if "StructuredOutput" in tools:
        return [{"type": "tool_use", "name": "StructuredOutput", "input": {"word": word}}]
    results = shown.count('"tool_result"')
    if "Read" in tools and results == 0:
        reads = {"type": "tool_use", "name": "Read", "input": {"file_path": "register"}}
        missing = {"type": "tool_use", "name": "Read", "input": {"file_path": "no_such_file"}}
        return [{"type": "text", "text": "I look."}, reads, missing]
    if "Read" in tools and results == 2:
        return [{"type": "tool_use", "name": "Write", "input": {"file_path": "found", "content": word}}]
    return [{"type": "text", "text": f"The register says {word}."}]


if __name__ == "__main__":
    serve(turn)
