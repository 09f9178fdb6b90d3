"""Traces: the messages between a model and its tools, read from several formats into one.

A *trace* is a sequence of `Message`s. A *recording* is a conversation as JSON values, in the format of the program that
wrote it. Most functions here accept both. Recorded traffic, a list of *exchanges*, has its own functions.
"""

from karenina_toolkit.traces.blocks import TraceFormatError
from karenina_toolkit.traces.exchanges import Exchange, convert_conversations, convert_exchanges
from karenina_toolkit.traces.formats.transcripts import is_delimited, is_transcript, read_delimited, read_transcript
from karenina_toolkit.traces.reasoning import separate_reasoning, split_reasoning
from karenina_toolkit.traces.recorded_ends import END_KEYS, add_end, find_end
from karenina_toolkit.traces.recording import (
    Recording,
    convert_recording,
    is_conversation,
    parse_conversation,
    parse_json_conversation,
)
from karenina_toolkit.traces.trace_text import (
    AgentMetrics,
    TraceVerdict,
    final_ai_message,
    measure_trace,
    render_trace,
    validate_trace,
)

__all__ = [
    "END_KEYS",
    "AgentMetrics",
    "Exchange",
    "Recording",
    "TraceFormatError",
    "TraceVerdict",
    "add_end",
    "convert_conversations",
    "convert_exchanges",
    "convert_recording",
    "final_ai_message",
    "find_end",
    "is_conversation",
    "is_delimited",
    "is_transcript",
    "measure_trace",
    "parse_conversation",
    "parse_json_conversation",
    "read_delimited",
    "read_transcript",
    "render_trace",
    "separate_reasoning",
    "split_reasoning",
    "validate_trace",
]
