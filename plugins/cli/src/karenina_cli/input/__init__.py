"""What a command is given: arguments and options with their completions, the configuration, and files."""
