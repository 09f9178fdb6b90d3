"""The progress of runs: the events that observers receive, and displays."""
