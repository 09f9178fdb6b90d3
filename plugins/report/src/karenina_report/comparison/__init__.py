"""Comparisons of two runs: pairing, paired values, what changed, and the text."""
