"""The report page: a single HTML file, opened from disk, that contains all results of one or more runs."""
