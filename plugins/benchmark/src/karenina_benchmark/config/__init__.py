"""Configuration files, their layers, and models named on a command line."""
