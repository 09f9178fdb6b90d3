"""Export formats, and reading of exported results."""
