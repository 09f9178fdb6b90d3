"""The parts shared by templates with the same fields: declarations as data, their class, and the judge's schema."""
