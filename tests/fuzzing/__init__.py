"""Fuzzing of all inputs of Karenina: files, journals, and replies of servers, judges and tools."""
