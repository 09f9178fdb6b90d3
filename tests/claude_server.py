"""A fake Claude based on the shared fake Messages API: `claude_server.py FAKE_ANTHROPIC.PY` prints its URL.

Asked for JSON, it gives the last code word of what it was shown; as an agent it reads the file that the question names
and replies with its content; else it knows one code word by heart. The first request meets a server that is overloaded.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

BY_HEART = "The register says QX11111Z."


def turn(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks of the reply to a request."""
    shown = json.dumps(body["messages"])
    word = (re.findall(r"QX\d+Z", shown) or ["none"])[-1]
    if "output_config" in body:
        return [{"type": "text", "text": json.dumps({"word": word})}]
    if not body.get("tools"):
        return [{"type": "text", "text": BY_HEART}]
    if "tool_result" in shown:
        return [{"type": "text", "text": f"The register says {word}."}]
    return [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "name": "read_file", "input": {"path": "register"}},
    ]


def serve(turn: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> None:
    """Serve replies of `turn` with the shared fake in the file that the command names, until this process ends."""
    spec = importlib.util.spec_from_file_location("fake_anthropic", sys.argv[1])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.FakeAnthropic(turn, errors={0: 529}) as server:
        print(server.url, flush=True)  # noqa: T201 - who started this reads it
        threading.Event().wait()


if __name__ == "__main__":
    serve(turn)
