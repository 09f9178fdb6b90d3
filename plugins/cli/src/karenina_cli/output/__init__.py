"""Print results, summaries, costs and lists of fields."""
