"""Limits on all processes of a command together."""
