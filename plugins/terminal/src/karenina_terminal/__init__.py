"""What commands share: the screen, options, completion in a shell, commands imported when called, layout of text."""
