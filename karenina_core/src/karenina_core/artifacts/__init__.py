"""Artifacts, their keys, and the thirteen slots."""
