"""The second look, in which small judges check the values that they extracted, and the detection of invented dates."""
