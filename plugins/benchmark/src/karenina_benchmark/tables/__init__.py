"""Question tables: the roles of columns, the kinds of correct answers, and templates made from them."""
