"""Ask a judge for JSON until it fits: read the reply, repair what is unambiguous, validate it, and ask once more.

Every adapter hands on what its model said as raw text; this package treats all of them the same.
"""

from karenina_toolkit.structured.asking import InvalidReply, Structured, ask_for, spent_before
from karenina_toolkit.structured.fitting import misfits, repair
from karenina_toolkit.structured.judging import ask
from karenina_toolkit.structured.reading import read_object
from karenina_toolkit.structured.schemas import object_schema

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
