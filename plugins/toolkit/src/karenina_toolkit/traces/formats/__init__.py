"""Formats of conversations that other programs write, one module for each."""
