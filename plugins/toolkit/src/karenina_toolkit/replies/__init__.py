"""Model replies: their limits, their ends, and making them safe to store."""
