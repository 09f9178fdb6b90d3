"""HTTP calls: URLs, bounded replies, errors and how to fix them, and secrets."""
