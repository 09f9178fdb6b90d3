"""The run engine: model calls, costs, the journal, scheduling, runs without calls, and sets of results."""
