"""The kinds of input: one module with a `KIND` for each."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from fuzzing.engine import Kind

NAMES: Final = (
    *("yaml", "jsonld", "jsonl", "csv", "excel", "config", "recordings", "journal", "results"),
    *("imports", "records", "question_tables", "http_replies", "judge_replies", "mcp_replies"),
    *("quantities", "choices", "expressions", "chemistry", "terms"),
)


def get_kind(name: str) -> Kind[Any]:
    """Return the kind of this name."""
    found: Kind[Any] = import_module(f"fuzzing.kinds.{name}").KIND
    return found
