"""Replies of models: whether they are whole, how they ended, and what must not be kept of them."""
