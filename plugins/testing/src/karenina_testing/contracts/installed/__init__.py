"""Contracts that run the installed `karenina` command on samples, as users do."""
