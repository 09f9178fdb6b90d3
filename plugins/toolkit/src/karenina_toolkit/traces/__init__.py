"""Traces: the messages between a model and its tools, in a single format.

A *trace* is a sequence of `Message`s. A *recording* is a conversation in JSON, in the format of the program that wrote
it. Most functions here accept both. Recorded traffic, a list of *exchanges*, has functions of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_toolkit.lazy_names import lazy_names

if TYPE_CHECKING:
    from karenina_toolkit.traces.blocks import TraceFormatError
    from karenina_toolkit.traces.exchanges import Exchange, convert_conversations, convert_exchanges
    from karenina_toolkit.traces.formats.coding_agents.swe_agent import find_patch
    from karenina_toolkit.traces.formats.transcripts import is_delimited, is_transcript, read_delimited, read_transcript
    from karenina_toolkit.traces.reasoning import separate_reasoning, split_reasoning
    from karenina_toolkit.traces.recorded_ends import (
        END_KEYS,
        add_end,
        find_conversation,
        find_end,
        is_limit_reached,
    )
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
    "find_conversation",
    "find_end",
    "find_patch",
    "is_conversation",
    "is_delimited",
    "is_limit_reached",
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


__getattr__ = lazy_names(
    __name__,
    {
        "AgentMetrics": ".trace_text",
        "END_KEYS": ".recorded_ends",
        "Exchange": ".exchanges",
        "Recording": ".recording",
        "TraceFormatError": ".blocks",
        "TraceVerdict": ".trace_text",
        "add_end": ".recorded_ends",
        "convert_conversations": ".exchanges",
        "convert_exchanges": ".exchanges",
        "convert_recording": ".recording",
        "final_ai_message": ".trace_text",
        "find_conversation": ".recorded_ends",
        "find_end": ".recorded_ends",
        "find_patch": ".formats.coding_agents.swe_agent",
        "is_conversation": ".recording",
        "is_delimited": ".formats.transcripts",
        "is_limit_reached": ".recorded_ends",
        "is_transcript": ".formats.transcripts",
        "measure_trace": ".trace_text",
        "parse_conversation": ".recording",
        "parse_json_conversation": ".recording",
        "read_delimited": ".formats.transcripts",
        "read_transcript": ".formats.transcripts",
        "render_trace": ".trace_text",
        "separate_reasoning": ".reasoning",
        "split_reasoning": ".reasoning",
        "validate_trace": ".trace_text",
    },
)
