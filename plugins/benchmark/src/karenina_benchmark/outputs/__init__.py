"""Outputs of other programs: reading them, and judging them."""
