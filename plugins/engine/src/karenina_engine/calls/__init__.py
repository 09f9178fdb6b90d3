"""Model calls: ports, limits, retries, and checks of replies."""
