"""Runs started by commands: progress, signals, and conditions and reports for CI."""
