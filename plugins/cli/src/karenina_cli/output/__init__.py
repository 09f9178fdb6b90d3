"""Printing of results, summaries, costs and lists of fields."""
