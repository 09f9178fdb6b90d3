"""The plan of a run: which stages run, in which order, and why."""
