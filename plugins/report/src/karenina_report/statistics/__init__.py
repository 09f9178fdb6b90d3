"""Statistics for runs: rates, trait metrics, and the statistical units they count."""
