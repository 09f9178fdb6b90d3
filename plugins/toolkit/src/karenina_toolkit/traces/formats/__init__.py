"""Conversation formats of other programs. `registry` lists them and detects which one a recording has."""
