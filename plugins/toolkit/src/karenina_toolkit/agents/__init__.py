"""Agents whose loop is run by Karenina itself."""
