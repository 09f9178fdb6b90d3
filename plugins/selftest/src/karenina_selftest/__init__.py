"""Self-tests of judges: answers with known verdicts, and how often a judge passes or fails them wrongly."""
