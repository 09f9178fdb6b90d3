"""A fake Claude based on the shared fake Messages API, for the contract of live endpoints.

`live_claude_server.py FOLDER_OF_THE_SHARED_SERVERS` prints its URL. It fills any schema, reads the note if it was given
tools to read it, and takes a moment for each reply.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

sys.path.insert(0, sys.argv[1])
from fake_anthropic import FakeAnthropic
from fake_openai import fit

MOMENT = 0.4


def turn(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks of the reply to a request."""
    form = body.get("output_config", {}).get("format")
    if form is not None:
        return [{"type": "text", "text": json.dumps(fit(form["schema"], "Lyon"))}]
    names = {tool["name"]: tool for tool in body.get("tools", ())}
    choice = body.get("tool_choice", {})
    if choice.get("type") == "tool":
        return [
            {"type": "tool_use", "name": choice["name"], "input": fit(names[choice["name"]]["input_schema"], "Lyon")}
        ]
    reading = next((name for name in ("read_file", "Read") if name in names), None)
    if reading is None or "tool_result" in json.dumps(body["messages"]):
        return [{"type": "text", "text": "It is in France."}]
    return [{"type": "tool_use", "name": reading, "input": fit(names[reading]["input_schema"], "note.txt")}]


if __name__ == "__main__":
    with FakeAnthropic(turn, delay=MOMENT) as server:
        print(server.url, flush=True)  # noqa: T201 - who started this reads it
        threading.Event().wait()
