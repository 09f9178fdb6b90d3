"""What templates with the same fields share: declarations as data, the class built from them, the judge's schema."""
