"""Statistics for runs: rates, trait metrics, and statistical units."""
