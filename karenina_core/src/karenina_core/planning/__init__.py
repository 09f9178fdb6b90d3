"""Which stages run, in which order, and why."""
