"""The progress of runs: events for observers, and progress displays."""
