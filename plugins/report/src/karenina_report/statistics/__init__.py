"""Statistics of runs: rates, metrics of traits, and the units that they count."""
