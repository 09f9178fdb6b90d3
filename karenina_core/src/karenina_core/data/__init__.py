"""Plain data: questions, rubrics and traits, trust, results and their sections, outcomes."""
