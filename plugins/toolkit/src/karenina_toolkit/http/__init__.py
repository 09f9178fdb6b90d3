"""HTTP for adapters: URLs, bounded replies, errors and secrets."""
