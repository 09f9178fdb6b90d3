"""promptfoo configurations and results."""
