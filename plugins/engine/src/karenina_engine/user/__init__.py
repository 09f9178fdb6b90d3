"""The user's private files: which digests they trust, and how such files are read and locked."""
