"""Statistics for plain numbers: intervals, p values, power, agreement, and components of variance.

Each method was chosen by a simulation, which `benchmarks/coverage.py` repeats.
"""
