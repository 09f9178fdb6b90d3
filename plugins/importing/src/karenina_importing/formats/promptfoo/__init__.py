"""promptfoo: configurations and results."""
