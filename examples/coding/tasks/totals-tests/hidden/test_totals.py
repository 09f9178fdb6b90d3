from decimal import Decimal

from totals import totals


def test_one_amount():
    assert totals([{"category": "tea", "amount": "3.20"}]) == {"tea": Decimal("3.20")}


def test_amounts_are_added():
    rows = [{"category": "tea", "amount": "0.10"}, {"category": "tea", "amount": "0.20"}]
    assert totals(rows) == {"tea": Decimal("0.30")}
