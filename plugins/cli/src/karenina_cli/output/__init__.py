"""Printing of results, summaries, costs and field lists."""
