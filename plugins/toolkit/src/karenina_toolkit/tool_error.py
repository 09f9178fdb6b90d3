"""The error of a tool's call."""

from __future__ import annotations


class ToolError(Exception):
    """A call that a tool refuses or could not carry out. The message is for the model: what is wrong, what to do."""
