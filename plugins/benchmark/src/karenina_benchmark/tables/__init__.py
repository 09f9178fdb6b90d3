"""Tables of questions: what columns hold, what answers are, and the templates made of them."""
