"""A small MCP server over stdio that uses only the standard library, so that it starts fast.

Its arguments are the names of its tools; `answer` defines what each does.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
NULLS = {
    "type": "object",
    "properties": {"n": {"type": ["integer", "null"], "default": None, "enum": None, "description": None}},
    "required": None,
}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], **more}


ERRORS = {
    "refuse": {"code": -32000, "message": "the river is closed"},
    "later": {"code": -32001, "message": "the bridge timed out"},
}
"""Tools whose calls are answered by an error of the protocol, with codes that clients use themselves."""

calls = 0
"""How often the tool `count` was called."""


def answer(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if tool == "environment":
        return text(json.dumps(dict(os.environ)))
    if tool == "folder":
        return text(str(Path.cwd()))
    if tool == "reach":
        return text(json.dumps([reach(place) for place in sys.argv[1:] if place.startswith(("/", "127."))]))
    if tool == "process":
        return text(str(os.getpid()))
    if tool == "count":
        global calls
        calls += 1
        return text(str(calls))
    if tool == "fail":
        return text("the river is dry", isError=True)
    if tool == "sleep":
        time.sleep(60)
    if tool == "odd":
        return {"content": [{"type": "smell"}]}
    if tool == "half":
        return text("cut off \ud83e")
    if tool == "wait":
        sys.stdin.read()
    if tool == "ask":
        return text(ask())
    if tool == "stumble" and not (fallen := Path("fallen")).exists():
        fallen.touch()
        os._exit(3)
    if tool == "die":
        time.sleep(float(os.environ.get("HILLS_LAST_SECONDS", "0")))
        sys.stderr.write(f"my heart, {os.environ.get('HILLS_TOKEN', 'oh')}\n")
        sys.stderr.flush()
        os._exit(3)
    return text(f"{tool} of {arguments.get('n')}")


def reach(place: str) -> str:
    """Return "seen" if a folder can be listed, or a server on the loopback interface be reached."""
    try:
        if place.startswith("/"):
            list(Path(place).iterdir())
        else:
            host, _, port = place.partition(":")
            socket.create_connection((host, int(port))).close()
    except OSError as error:
        return type(error).__name__
    return "seen"


def ask() -> str:
    """Return the user's answer to a form, or the reason why there is none."""
    place = {"type": "integer", "default": 18}
    form = {"message": "Which chromosome?", "requestedSchema": {"type": "object", "properties": {"place": place}}}
    send({"id": "q", "method": "elicitation/create", "params": form})
    said = json.loads(sys.stdin.readline())
    return json.dumps(said.get("result", said.get("error")))


def reply(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "talking", "version": "1"},
        }
    if method == "tools/list":
        names = sys.argv[1:]
        if names == ["nameless"]:
            return {"tools": [{"inputSchema": NUMBER}]}
        first = int(params.get("cursor") or 0)
        page = [
            {"name": name, "description": f"Does {name}.", "inputSchema": NULLS if name == "nulls" else NUMBER}
            for name in names[first : first + 2]
        ]
        return {"tools": page, **({"nextCursor": str(first + 2)} if names[first + 2 :] else {})}
    return answer(params["name"], params.get("arguments") or {})


def main() -> None:
    if "chatty" in sys.argv:
        sys.stdout.write("Welcome to the hills!\n")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        method = message["method"]
        said: dict[str, Any] = {"id": message["id"]}
        if method == "tools/call" and message["params"]["name"] in ERRORS:
            said["error"] = ERRORS[message["params"]["name"]]
        elif method in ("initialize", "tools/list", "tools/call"):
            said["result"] = reply(method, message.get("params") or {})
        else:
            said["error"] = {"code": -32601, "message": f"there is no {method}"}
        send(said)


if __name__ == "__main__":
    main()
