"""Shared parts of commands: the screen, options, shell completion, lazy commands, and text layout."""
