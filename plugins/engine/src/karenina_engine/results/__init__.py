"""Sets of results, result files, and aggregates of results."""
