"""Checks that find a run's problems before the first call is made."""
