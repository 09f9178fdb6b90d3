"""Conversation formats of other programs. `registry` lists them and detects the format of a recording."""
