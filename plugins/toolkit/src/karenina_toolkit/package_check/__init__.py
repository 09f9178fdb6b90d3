"""Checks of an installed plugin package, for `karenina plugins --check` and contract tests."""
