"""Model calls: ports, limits, retries, and reply checks."""
