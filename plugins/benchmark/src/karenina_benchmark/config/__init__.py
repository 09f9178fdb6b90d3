"""Configuration files, layers of settings, presets, and models given on the command line."""
