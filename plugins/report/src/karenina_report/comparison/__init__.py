"""Comparisons of runs: pairing, paired values, changes and printed text."""
