"""Model replies: their size limits, how they ended, and how they are sanitized."""
