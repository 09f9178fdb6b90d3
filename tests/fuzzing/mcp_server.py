"""An MCP server over stdio that replies what a file says: one line for each method, as bytes.

`mcp_server.py FILE`: the file is JSON of latin-1 texts by method. `"@ID@"` in a text is the id of the request.
"""

import json
import sys

UNKNOWN = '{"jsonrpc": "2.0", "id": "@ID@", "error": {"code": -32601, "message": "there is no such method"}}'


def main() -> None:
    with open(sys.argv[1], "rb") as file:  # noqa: PTH123 - pathlib takes longer to import than all the rest
        replies = json.loads(file.read())
    for line in sys.stdin.buffer:
        message = json.loads(line)
        reply = replies.get(message.get("method"), UNKNOWN)
        if "id" in message:
            sys.stdout.buffer.write(
                reply.encode("latin-1").replace(b'"@ID@"', json.dumps(message["id"]).encode()) + b"\n"
            )
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
