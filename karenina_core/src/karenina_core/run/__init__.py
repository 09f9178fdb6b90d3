"""The run: which items there are, how many calls at once, retries, progress, and the results as they end."""
