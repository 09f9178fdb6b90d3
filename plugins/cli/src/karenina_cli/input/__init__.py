"""Command input: arguments and options with their completions, the configuration, and files."""
