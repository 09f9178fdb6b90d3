"""Runs started by commands: progress, interruption by signals, and conditions and reports for CI."""
