"""The second look, in which small judges check their values, and detecting invented dates."""
