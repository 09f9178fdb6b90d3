"""Model replies: size limits, how replies end, and how they are sanitized."""
