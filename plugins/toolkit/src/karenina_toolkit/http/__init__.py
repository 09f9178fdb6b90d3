"""HTTP calls: URLs, bounded replies, errors and their remedies, and secrets."""
