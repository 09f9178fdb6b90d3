"""Stages, their context, the state of an item, and the result."""
