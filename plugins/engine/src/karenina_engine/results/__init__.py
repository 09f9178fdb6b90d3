"""Result sets, result files, and aggregates of results."""
