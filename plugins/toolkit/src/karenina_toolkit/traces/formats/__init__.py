"""Formats of conversations that other programs write; `registry` lists them, and detects the format of a recording."""
