"""Artifacts exchanged by stages, their keys, and the thirteen slots."""
