"""Checks an installed plugin package, for `karenina plugins --check` and the contract tests."""
