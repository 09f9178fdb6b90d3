"""Statistics for plain numbers: intervals, p values, power, agreement and variance components.

Each method was chosen by a simulation, which `benchmarks/coverage.py` repeats.
"""
