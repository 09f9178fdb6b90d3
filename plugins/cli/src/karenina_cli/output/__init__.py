"""Results, their summary, costs and lists of fields, as commands print them."""
