"""Replies of models: their bounds, how they ended, and their sanitizing."""
