"""Benchmark file formats: YAML, JSON-LD checkpoints, JSON lines, tables, and those of plugins."""
