"""The run engine: model calls, costs, the journal, scheduling, offline work without calls, and results."""
