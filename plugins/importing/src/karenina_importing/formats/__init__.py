"""The built-in formats of other tools."""
