"""Sets of results, their files, summaries and totals."""
