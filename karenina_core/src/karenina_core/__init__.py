"""Karenina's core: what a stage and an adapter are, and how the installed ones become a run."""
