"""Question tables: the roles of columns, the kinds of correct answers, and the templates made from them."""
