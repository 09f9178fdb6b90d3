"""Loads templates from their source: declarations are read and rebuilt, trusted code is executed."""
