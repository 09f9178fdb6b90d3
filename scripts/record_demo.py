"""Run the demo with its two models, and write their replies to the file that `karenina demo --recorded` replays.

    python scripts/record_demo.py

Run it after a change of the demo's questions, models or prompts. It takes a minute.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import karenina_local.ports as local_ports
from karenina import Benchmark, VerificationConfig
from karenina_local.demo import Demo
from karenina_local.recorded_replies import digest_request
from karenina_local.slot_client import SlotClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.models.ports import Message

FILE = Path(__file__).parents[1] / "adapters" / "local" / "src" / "karenina_local" / "demo_replies.json"
NOTE = "Replies of the demo's models, recorded with scripts/record_demo.py for `karenina demo --recorded`."


class RecordingClient(SlotClient):
    """A client that collects the replies in `replies`."""

    replies: dict[str, dict[str, Any]] = {}

    async def post(self, messages: Sequence[Message], wire: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """Return the reply of the server. Raises `PortError` if the request fails."""
        reply = await super().post(messages, wire, **fields)
        self.replies[digest_request(wire, fields)] = shorten(reply)
        return reply


def shorten(reply: dict[str, Any]) -> dict[str, Any]:
    """Keep what is read of a reply: the message, the finish reason, log-probabilities and usage."""
    choice = reply["choices"][0]
    kept = {name: choice[name] for name in ("index", "message", "finish_reason")}
    if choice.get("logprobs"):
        kept["logprobs"] = {
            "content": [
                {
                    "token": token["token"],
                    "logprob": round(token["logprob"], 6),
                    "top_logprobs": [
                        {"token": other["token"], "logprob": round(other["logprob"], 6)}
                        for other in token["top_logprobs"]
                    ],
                }
                for token in choice["logprobs"]["content"]
            ]
        }
    return {"choices": [kept], "usage": reply["usage"]}


def main() -> None:
    """Run the demo and write the file. Fails if an item was not judged."""
    setattr(local_ports, "SlotClient", RecordingClient)  # noqa: B010 - in this process only
    demo = Demo()
    demo.get([demo.answering, demo.judge], print)
    with demo.questions() as path:
        benchmark = Benchmark.load(path)
    results = benchmark.run_verification(VerificationConfig(**demo.config(demo.answering, demo.judge)))
    failed = [result.question_id for result in results if not result.outcome.has_verdict]
    if failed:
        sys.exit(f"not judged, so nothing was written: {', '.join(failed)}")
    data = {"note": NOTE, "replies": dict(sorted(RecordingClient.replies.items()))}
    FILE.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{len(RecordingClient.replies)} replies of {len(results)} items: {FILE}")


if __name__ == "__main__":
    main()
