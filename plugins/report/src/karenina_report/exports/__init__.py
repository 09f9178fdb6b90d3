"""Export formats, and reading exported results back."""
