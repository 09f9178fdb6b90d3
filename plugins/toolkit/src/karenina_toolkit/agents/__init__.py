"""Agents whose loop is run by the framework itself: the tool loop, workspace tools, and tool calls written as text."""
