"""Agents that the framework itself runs: the loop of calls and tools, tools of a workspace, written calls."""
