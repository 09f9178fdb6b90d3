"""Runs: preparing and executing them."""
