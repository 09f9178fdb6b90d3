"""Checks made before a run, which find everything that would fail every item before the first call is made."""
