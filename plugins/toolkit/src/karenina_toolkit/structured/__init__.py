"""Structured output from a judge: parsing the reply, repairing it, validating it, and retrying once.

This is the same for all adapters, which only return their model's text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_toolkit.lazy_names import lazy_names

if TYPE_CHECKING:
    from karenina_toolkit.structured.reply_parser import read_object
    from karenina_toolkit.structured.schema_repair import find_mismatches, may_mean_nothing, object_schema, repair
    from karenina_toolkit.structured.structured_call import InvalidReply, StructuredResult, ask, call_structured

__all__ = [
    "InvalidReply",
    "StructuredResult",
    "ask",
    "call_structured",
    "find_mismatches",
    "may_mean_nothing",
    "object_schema",
    "read_object",
    "repair",
]


__getattr__ = lazy_names(
    __name__,
    {
        "InvalidReply": ".structured_call",
        "StructuredResult": ".structured_call",
        "ask": ".structured_call",
        "call_structured": ".structured_call",
        "find_mismatches": ".schema_repair",
        "may_mean_nothing": ".schema_repair",
        "object_schema": ".schema_repair",
        "read_object": ".reply_parser",
        "repair": ".schema_repair",
    },
)
