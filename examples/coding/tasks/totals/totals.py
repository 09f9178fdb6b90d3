"""Add up the amounts in a CSV file, by category."""

import csv
import sys
from decimal import Decimal


def totals(rows):
    """Return the sum of the amounts in each category."""
    sums = {}
    for row in rows:
        sums[row["category"]] = Decimal(row["amount"])
    return sums


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8", newline="") as file:
        for category, amount in sorted(totals(csv.DictReader(file)).items()):
            print(f"{category}: {amount}")
