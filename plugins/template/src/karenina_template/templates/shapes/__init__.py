"""The data that templates with the same fields share: declarations, the class, and the judge's schema."""
