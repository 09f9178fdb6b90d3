"""What stages exchange: artifacts, their keys, and the thirteen slots."""
