"""Print the median of the numbers on the command line."""

import sys


def median(numbers):
    """Return the median of a list of numbers."""
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]


if __name__ == "__main__":
    print("median:", median([float(number) for number in sys.argv[1:]]))
