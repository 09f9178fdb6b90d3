"""Plain data: questions, rubrics and traits, trust, results and outcomes."""
