"""What templates of the same form share: declarations as data, the class made from them, the schema for judges."""
