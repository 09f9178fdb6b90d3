"""Conversation formats written by other programs. `registry` lists them and detects the format of a recording."""
