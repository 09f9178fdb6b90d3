"""Diffs of git and of `diff`: how they are read, and applied to a folder."""
