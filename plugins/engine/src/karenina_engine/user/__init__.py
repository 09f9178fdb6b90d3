"""The private files of the user: what they trust, and how such files are read and locked."""
