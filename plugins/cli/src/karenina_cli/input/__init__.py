"""Command input: options with their completions, the configuration, and files."""
