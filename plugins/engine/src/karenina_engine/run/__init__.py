"""Runs: the request, its preparation, the session, and the execution of its items in one or more processes."""
