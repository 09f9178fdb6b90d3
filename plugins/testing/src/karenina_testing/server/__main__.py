"""A scripted server in its own process. It prints its URL and serves requests until it is stopped.

    python -m karenina_testing.server --reply Paris. --share 429:1=0.1 --share hang=0.02 --latency 0.3
    python -m karenina_testing.server --script cases.jsonl

Each line of a script is for one item. `item` is the item's key; if it is missing, the key is the text in `question` or
the key in `case`. `side` is `answer` or `judge`; if it is missing, the line applies to both. The line sends `text`,
`fault`, or a literal reply: `status` and `body`, `stream` and `done`, or `raw`. Several lines for the same item and
side apply to its calls in order; `{"item": "17"}` alone stands for the default reply. GET /log returns the log as JSON
lines, and /stats returns counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from karenina_testing.server import faults
from karenina_testing.server.exchange import Reply
from karenina_testing.server.script import One, Side
from karenina_testing.server.scripted import ScriptedServer


def read_script(text: str) -> dict[str, dict[str, list[One]]]:
    """Return the replies in JSON lines, by side (`answer` and `judge`) and item. A line without a side applies to both.
    Raises `ValueError`, with the line number, if a line is malformed.
    """
    sides: dict[str, dict[str, list[One]]] = {"answer": {}, "judge": {}}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            item, side, sent = _read_line(json.loads(line))
        except (ValueError, TypeError) as error:
            raise ValueError(f"line {number}: {error}") from None
        for name in (side,) if side else ("answer", "judge"):
            sides[name].setdefault(item, []).append(sent)
    return sides


def _read_line(case: Any) -> tuple[str, str | None, One]:
    """Return the item of a line of a script (its `item`, `question` or `case`), its side (None for both), and its reply
    (None for the default one), of which a `fault` takes precedence over `text`, and `text` over a literal reply. Raises
    `TypeError` if the line is not a JSON object, and `ValueError` if it has no item, or an unknown side or fault.
    """
    if not isinstance(case, Mapping):
        raise TypeError("expected a JSON object")
    item = next((str(case[name]) for name in ("item", "question", "case") if name in case), None)
    if item is None:
        raise ValueError("the item is missing; add the key 'item', 'question' or 'case'")
    if case.get("side") not in (None, "answer", "judge"):
        raise ValueError(f"side must be 'answer' or 'judge', not {case['side']!r}; omit side to script both")
    if "fault" in case:
        return item, case.get("side"), faults.named(case["fault"])
    if "text" in case:
        return item, case.get("side"), str(case["text"])
    literal = any(name in case for name in ("status", "body", "stream", "raw"))
    return item, case.get("side"), Reply.from_case(case) if literal else None


def main(arguments: list[str] | None = None) -> None:
    """Run a server until it is stopped, and print its URL. Exits with 2 for invalid arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m karenina_testing.server",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="the port to listen on; 0 selects a free port")
    parser.add_argument("--reply", default=None, help="the answering model's default reply")
    parser.add_argument("--judge-reply", default=None, help="the judge's default reply")
    parser.add_argument("--script", type=Path, help="a JSON Lines file with the replies and faults of items")
    parser.add_argument(
        "--share",
        action="append",
        default=[],
        metavar="FAULT=SHARE",
        help="a fault, and the proportion of calls that it affects",
    )
    parser.add_argument("--seed", default="0", help="seed for selecting the calls that --share affects")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument(
        "--allowed", type=int, help="maximum number of concurrent calls; others are refused with status 429"
    )
    parser.add_argument("--no-log", action="store_true", help="keep no log, for long measurements")
    options = parser.parse_args(arguments)
    try:
        items = read_script(options.script.read_text("utf-8")) if options.script else {"answer": {}, "judge": {}}
        shares = {
            faults.named(name): float(share) for name, _, share in (text.rpartition("=") for text in options.share)
        }
        answers = Side(options.reply, items["answer"], shares, options.seed)
        judge = Side(
            options.reply if options.judge_reply is None else options.judge_reply, items["judge"], shares, options.seed
        )
    except (ValueError, OSError) as error:
        parser.error(str(error))
    server = ScriptedServer(
        answers, judge, latency=options.latency, allowed=options.allowed, port=options.port, keep_log=not options.no_log
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(server.serve(lambda: print(server.url, flush=True)))  # noqa: T201 - who started it reads the URL


if __name__ == "__main__":
    main()
