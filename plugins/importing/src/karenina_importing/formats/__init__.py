"""The formats of other tools that are built in."""
