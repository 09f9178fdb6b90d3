"""Statistics of lists."""


def mean(values: list[float]) -> float:
    """Return the mean of the values."""
    return sum(values) / len(values)
