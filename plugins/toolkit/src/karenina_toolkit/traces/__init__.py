"""Traces: what a model and its tools said to each other, read from several formats into one shape.

A *trace* is a sequence of `Message`s. A *recording* is the same thing as JSON values, in the format of whoever wrote
it. The functions here take either; recorded traffic, a list of *exchanges*, becomes traces by functions of its own.
"""

from karenina_toolkit.traces.agent_metrics import AgentMetrics, metrics
from karenina_toolkit.traces.delimited_text import is_delimited, read_delimited
from karenina_toolkit.traces.exchanges import Exchange, trace_of_exchanges, traces_of_exchanges
from karenina_toolkit.traces.format_error import TraceFormatError
from karenina_toolkit.traces.formats import Recording, convert
from karenina_toolkit.traces.reasoning import split_reasoning, with_reasoning_apart
from karenina_toolkit.traces.trace_text import render
from karenina_toolkit.traces.trace_validation import TraceVerdict, final_ai_message, validate

__all__ = [
    "AgentMetrics",
    "Exchange",
    "Recording",
    "TraceFormatError",
    "TraceVerdict",
    "convert",
    "final_ai_message",
    "is_delimited",
    "metrics",
    "read_delimited",
    "render",
    "split_reasoning",
    "trace_of_exchanges",
    "traces_of_exchanges",
    "validate",
    "with_reasoning_apart",
]
