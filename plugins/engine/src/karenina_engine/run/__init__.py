"""Runs: the request, its preparation, the session, and what executes its items in one or several processes."""
