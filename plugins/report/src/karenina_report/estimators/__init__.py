"""Statistics of plain numbers: intervals, p values, and what a comparison could have shown.

Each method was chosen by simulation; `benchmarks/coverage.py` repeats it.
"""
