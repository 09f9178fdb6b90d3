"""File formats of benchmarks: YAML, checkpoints in JSON-LD, JSON lines, tables, and those of plugins."""
