"""Comparisons of runs: pairing, paired values, changes, and the text."""
