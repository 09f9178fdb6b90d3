"""Limited computation: `call_limited` runs a function on untrusted values in a child process with limits."""

from karenina_toolkit.limits.child_processes import ChildError, LimitReached, call_limited

__all__ = ["ChildError", "LimitReached", "call_limited"]
