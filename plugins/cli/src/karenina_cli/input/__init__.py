"""The input of commands: options with their completions, the configuration, and files."""
