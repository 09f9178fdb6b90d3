"""The error for a recording that is not a trace."""


class TraceFormatError(ValueError):
    """A recording that cannot be read without losing something. The message says which entry, and what is wrong."""
