"""Results and their summary as `--json` prints them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.aggregate import Totals


def result_json(result: VerificationResult) -> dict[str, Any]:
    """Return a result as `--json` prints it: in full, with `question_id` at the top level."""
    return {"question_id": result.question_id, **json.loads(result.model_dump_json())}


def summary_json(results: Totals) -> dict[str, Any]:
    """Return `summary` as `--json` prints it, with the usage and failures."""
    usage = results.usage()
    return {
        "summary": {
            **results.summary().model_dump(mode="json"),
            "usage": {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "total_tokens": usage.total_tokens,
                "calls": usage.calls,
            },
            "failures": [{"items": one.items, "error": one.error} for one in results.failures()],
        }
    }
