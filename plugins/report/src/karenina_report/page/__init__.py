"""The report page: a single HTML file with all results of one or more runs, which can be opened from disk."""
