"""Agents whose loop the framework itself runs: the tool loop, workspace tools, and tool calls written as text."""
