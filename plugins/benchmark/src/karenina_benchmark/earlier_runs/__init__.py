"""Reuse of earlier runs: their command for `karenina resume`, their extracted values for `karenina rescore`."""
