"""Parts shared by commands: the screen, options, shell completion, lazy commands, and text layout."""
