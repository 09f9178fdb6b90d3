"""Runs: preparing them, working through their items, executors and observers."""
