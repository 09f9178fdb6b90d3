"""Reading and judging the outputs of other programs."""
