"""The journal: its file, its rows, resuming from it, repairing it."""
