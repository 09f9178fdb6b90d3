"""Calls over HTTP: addresses, bounded replies, errors and their cures, secrets."""
