"""Traces: what a model and its tools said to each other, read from several formats into one shape.

A *trace* is a sequence of `Message`s. A *recording* is the same thing as JSON values, in the format of whoever wrote
it. The functions here take either; recorded traffic, a list of *exchanges*, becomes traces by functions of its own.
"""

from karenina_toolkit.traces.agent_metrics import AgentMetrics, measure_trace
from karenina_toolkit.traces.delimited_text import is_delimited, read_delimited
from karenina_toolkit.traces.exchanges import Exchange, convert_conversations, convert_exchanges
from karenina_toolkit.traces.format_error import TraceFormatError
from karenina_toolkit.traces.formats import Recording, convert_recording
from karenina_toolkit.traces.reasoning import separate_reasoning, split_reasoning
from karenina_toolkit.traces.trace_text import render_trace
from karenina_toolkit.traces.trace_validation import TraceVerdict, final_ai_message, validate_trace

__all__ = [
    "AgentMetrics",
    "Exchange",
    "Recording",
    "TraceFormatError",
    "TraceVerdict",
    "convert_conversations",
    "convert_exchanges",
    "convert_recording",
    "final_ai_message",
    "is_delimited",
    "measure_trace",
    "read_delimited",
    "render_trace",
    "separate_reasoning",
    "split_reasoning",
    "validate_trace",
]
