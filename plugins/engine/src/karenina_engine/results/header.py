"""The first line of a result file, which names the run and its distributions. All other lines are results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from karenina_core.data.outcome import Outcome

_BEGINNING: Final = b'{"run":'
_LONGEST: Final = 1 << 16


def header_line(
    distributions: Mapping[str, str], run: str | None = None, *, rescored: bool = False, free: bool = False
) -> str:
    """Return the header line, which names the distributions of a run with their versions.

    `run` is the run's id (`digest_run`), if it has a journal. `rescored` marks results that were made from the
    journal's replies but differ from the results in it. `free` means that no model of the run has a price, so the cost
    is known without the journal.
    """
    named: dict[str, Any] = {"distributions": dict(distributions)}
    if run is not None:
        named["id"] = run
    if rescored:
        named["rescored"] = True
    if free:
        named["free"] = True
    return json.dumps({"run": named}, separators=(",", ":"))


def digest_run(journal: object, number: int) -> str:
    """Return a run's id, a digest of its number and its journal's id. It does not reveal the journal's id."""
    return hashlib.sha256(f"{journal} {number}".encode()).hexdigest()[:16]


def is_header(line: bytes) -> bool:
    """Return whether a line of a result file is a header or the beginning of a cut-off header."""
    return line.startswith(_BEGINNING) or (bool(line) and _BEGINNING.startswith(line))


def read_header(path: Path) -> Mapping[str, Any]:
    """Return what a result file's header says about its run; empty if it has no header or cannot be read."""
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST)
        found = json.loads(line)["run"] if is_header(line) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def recorded_answer(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the answer in a result's JSON object; None if the model gave no answer.

    The answer has `question_id`, `replicate`, `model` (the answering model's id), `question`, and either `text` or, for
    an agent, `trace`: its messages as `Message.to_dict` returns them. `finish_reason` is set if it was cut off or
    refused.
    """
    if result["outcome"] == Outcome.MODEL_ERROR.value:
        return None
    meta, template = result["metadata"], result["template"]
    trace = template["trace_messages"]
    end = "content_filter" if template.get("response_refused") else ""
    end = end or ("length" if template.get("response_truncated") else "")
    return {
        "question_id": meta["question_id"],
        "replicate": meta["replicate"] or 1,
        "model": meta["answering_id"],
        "question": meta["question_text"],
        **({"trace": trace} if trace else {"text": template["raw_llm_response"]}),
        **({"finish_reason": end} if end else {}),
    }
