"""Attachments: which files can be sent, reading them when they are sent, and which models understand them."""
