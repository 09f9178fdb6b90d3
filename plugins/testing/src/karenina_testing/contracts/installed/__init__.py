"""Contracts that run the installed command `karenina` on samples, as users do."""
