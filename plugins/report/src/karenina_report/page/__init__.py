"""The report page: a single HTML file, opened from disk, with all results of one or more runs."""
