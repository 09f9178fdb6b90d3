"""Checks before a run: everything that would fail every item is found before the first call."""
