"""Runs: checks before a run, sessions, executors, observers, and pools of workers and processes."""
