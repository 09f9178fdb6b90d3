"""Ask a judge for JSON until it fits: read the reply, repair what is unambiguous, validate it, and ask once more.

Every adapter hands on what its model said as raw text; this package treats all of them the same.
"""

from karenina_toolkit.structured.reply_parser import read_object
from karenina_toolkit.structured.schema_builder import object_schema
from karenina_toolkit.structured.schema_repair import misfits, repair
from karenina_toolkit.structured.stage_call import ask
from karenina_toolkit.structured.structured_call import InvalidReply, Structured, ask_for, spent_before

__all__ = [
    "InvalidReply",
    "Structured",
    "ask",
    "ask_for",
    "misfits",
    "object_schema",
    "read_object",
    "repair",
    "spent_before",
]
