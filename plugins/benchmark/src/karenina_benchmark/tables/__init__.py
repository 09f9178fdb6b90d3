"""Question tables: the roles of columns, the kinds of right answers, and the templates made from them."""
