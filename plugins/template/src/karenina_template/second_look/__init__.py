"""The second look, in which small judges check their values, and the detection of invented dates."""
