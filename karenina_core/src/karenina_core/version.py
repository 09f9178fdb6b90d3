"""The version of Karenina."""

__version__ = "0.1.0"
