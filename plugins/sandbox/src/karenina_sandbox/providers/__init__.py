"""The providers of sandboxes."""
