"""The run engine: model calls, costs, the journal, runs and their checks, offline work without calls, and results."""
