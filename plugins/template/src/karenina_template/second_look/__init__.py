"""The second look, in which small judges check the values they extracted, and the detection of invented dates."""
