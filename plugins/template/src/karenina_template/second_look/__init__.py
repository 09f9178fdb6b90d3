"""Help for small judges: they list rejected values first, and check the values that they extracted a second time."""
