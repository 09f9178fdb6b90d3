"""Configuration files, layers of settings, presets, and models specified on the command line."""
