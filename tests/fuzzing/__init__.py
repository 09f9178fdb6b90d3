"""Fuzzing of all that Karenina reads: files, journals, and what servers, judges and tools reply."""
