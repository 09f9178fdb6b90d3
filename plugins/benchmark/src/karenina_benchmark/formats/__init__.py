"""Benchmark file formats: YAML, JSON-LD checkpoints, JSON lines, tables, and formats added by plugins."""
