"""The journal: storing replies and results, resuming runs, and repairing damaged files."""
