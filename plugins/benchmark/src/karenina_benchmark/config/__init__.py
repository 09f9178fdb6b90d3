"""Configuration files, layers of settings, presets, and models on the command line."""
