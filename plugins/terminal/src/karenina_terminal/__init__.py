"""Parts that commands share: the screen, options, shell completion, lazy commands, and text layout."""
