"""What templates with the same fields share: declarations as data, their class, and the judge's schema."""
