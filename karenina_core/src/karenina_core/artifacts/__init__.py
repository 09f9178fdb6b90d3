"""Artifacts that stages exchange, their keys, and the thirteen slots."""
