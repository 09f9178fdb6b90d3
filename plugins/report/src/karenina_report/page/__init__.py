"""The report page: one HTML file that opens from disk, with all results of one or more runs."""
