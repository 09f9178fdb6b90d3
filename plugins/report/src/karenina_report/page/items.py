"""The items of the page: each result with its fields, traits, excerpts and calls, as JSON values."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from karenina_engine.results.tables import result_table
from karenina_report.runs import answer_id, truth_id

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.models.ports import Message
    from karenina_engine.offline.replay import SentPrompt
    from karenina_engine.results.table_columns import Row
    from karenina_report.rules import FieldRules

Prompts = Mapping[str, "SentPrompt"]
"""The prompts of calls by the key of the call."""


def make_item(
    result: VerificationResult, rules: FieldRules, calls: Iterable[Row], prompts: Prompts, files: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a result as the page holds it.

    `rules` are those of its template, `calls` rows of the table of calls, and `files` as `PageFiles` describes them.
    """
    values = result.model_dump(mode="json", exclude_none=True)
    undecided = result.undecided_fields()
    if values.get("evaluation_input") == result.template.raw_llm_response:
        del values["evaluation_input"]
    fields = result_table([result], "fields")
    truth = {str(row["field"]): str(row["truth"]) for row in fields if row["truth"] is not None}
    excerpts: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in result_table([result], "excerpts"):
        shown = {key: row[key] for key in ("text", "start", "end", "confidence", "similarity") if row[key] is not None}
        excerpts[str(row["of"]), str(row["name"])].append(shown)
    return {
        "result": values,
        "why": result.why(),
        "answer_id": answer_id(result) if result.template.raw_llm_response.strip() else None,
        "truth_id": truth_id(result.metadata.raw_answer, truth),
        "fields": [
            {
                "name": row["field"],
                "extracted": row["extracted"],
                "truth": row["truth"],
                "passed": "undecided" if row["field"] in undecided else row["passed"],
                "score": row["score"],
                "reason": row["reasoning"],
                "rule": rules.get(str(row["field"])),
                "excerpts": excerpts.get(("field", str(row["field"])), []),
            }
            for row in fields
        ],
        "traits": [
            {
                **{key: row[key] for key in ("kind", "value", "label", "error")},
                "name": row["trait"],
                "reason": row["reasoning"],
                "excerpts": excerpts.get(("trait", str(row["trait"])), []),
            }
            for row in result_table([result], "traits")
        ],
        **({"files": files} if files else {}),
        "calls": [_make_call(row, prompts.get(str(row["key"]))) for row in calls],
    }


def _make_call(row: Row, prompt: SentPrompt | None) -> dict[str, Any]:
    kept = ("stage", "task", "model", "port", "failed", "finish_reason", "input_tokens", "output_tokens", "seconds")
    made: dict[str, Any] = {**{key: row[key] for key in kept}, "reply": _reply_text(row)}
    if prompt is not None:
        made["messages"] = [_make_message(message) for message in prompt.messages]
        made["request"] = json.dumps(prompt.request, ensure_ascii=False, indent=2) if prompt.request else None
    return made


def _make_message(message: Message) -> dict[str, str]:
    """Return a message as its role and its text; calls of tools and their results are JSON text."""
    values = message.to_dict()
    content = values.pop("content", "")
    role = str(values.pop("role"))
    rest = {name: value for name, value in values.items() if value}
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return {"role": role, "text": "\n".join(filter(None, (text, json.dumps(rest, ensure_ascii=False) if rest else "")))}


def _reply_text(row: Row) -> str:
    """Return the text of a reply, or its JSON if it has none."""
    stored = str(row["reply"])
    try:
        reply = json.loads(stored)
    except ValueError:
        return stored
    if isinstance(reply, dict):
        reply.pop("turns", None)  # keys of the calls that are shown beside it
        reply.pop("kept_files", None)  # shown as files of the item
    text = reply.get("text") if isinstance(reply, dict) else None
    return text if isinstance(text, str) else json.dumps(reply, ensure_ascii=False, indent=2)
