"""Artifacts, their keys, and the thirteen pipeline slots."""
