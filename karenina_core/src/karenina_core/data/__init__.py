"""Plain data: questions, rubrics, trust, results and outcomes."""
