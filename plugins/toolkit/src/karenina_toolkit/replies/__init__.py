"""Model replies: their limits, their ends, and sanitizing them for storage."""
