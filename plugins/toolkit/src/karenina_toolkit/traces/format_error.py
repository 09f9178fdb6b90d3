"""The error of a recording that is no trace."""


class TraceFormatError(ValueError):
    """A recording that cannot be read without losing something. The message says which entry, and what is wrong."""
