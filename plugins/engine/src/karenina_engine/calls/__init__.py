"""Making model calls: ports, limits, retries, and checks of the replies."""
