"""How small judges are helped: they list rejected values first, and look a second time at what they extracted."""
