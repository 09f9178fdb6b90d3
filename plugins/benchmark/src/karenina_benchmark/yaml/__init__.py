"""YAML with the line of each value: reading and writing."""
