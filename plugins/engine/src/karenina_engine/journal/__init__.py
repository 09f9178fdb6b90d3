"""The journal: its file and rows, resuming a run from it, and repairing it."""
