"""HTTP for adapters: URLs, size-limited replies, errors and secrets."""
