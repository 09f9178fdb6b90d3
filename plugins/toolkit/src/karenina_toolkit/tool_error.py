"""The error of a tool call."""

from __future__ import annotations


class ToolError(Exception):
    """A call that a tool refused or could not carry out. The message is for the model: the problem and its cure."""
