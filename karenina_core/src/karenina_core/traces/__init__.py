"""Traces: what a model and its tools said to each other, in one shape."""
