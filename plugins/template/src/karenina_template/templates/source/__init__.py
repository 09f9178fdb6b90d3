"""Loads templates from source. Declarations are read without executing them. Trusted code is executed."""
