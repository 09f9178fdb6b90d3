"""Checks before a run, so that problems are found before the first call."""
