"""Model calls: ports of a run, limits, retries, and checks of replies."""
