"""Exports: the formats in which results leave Karenina, and the way back."""
