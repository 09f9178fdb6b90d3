"""Exact arithmetic on finite decimals of any size.

A context with a fixed number of digits rounds, and one without a limit fills the memory for 1E+1000000 + 1. Here, sums
have at most as many digits as their terms, because a term that is much smaller than another does not change the sign.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact
from typing import Final

_MOST_DIGITS: Final = 20_000
_ZERO: Final = Decimal(0)
_USUAL: Final = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact])
"""Precise enough for nearly all numbers; raises for the others instead of rounding."""


def product(one: Decimal, other: Decimal) -> Decimal:
    """Return the exact product."""
    try:
        return _USUAL.multiply(one, other)
    except Inexact:
        pass
    return _context(_digits(one) + _digits(other)).multiply(one, other)


def difference(one: Decimal, other: Decimal) -> Decimal:
    """Return the difference, rounded to at most 20,000 digits."""
    try:
        return _USUAL.subtract(one, other)
    except Inexact:
        pass
    return _context(min(_digits_of_sum(one, other), _MOST_DIGITS)).subtract(one, other)


def at_most(one: Decimal, other: Decimal, limit: Decimal) -> bool:
    """Return whether two numbers differ by at most `limit`."""
    try:
        return _USUAL.subtract(one, other).copy_abs() <= limit
    except Inexact:
        pass
    low, high = sorted((one, other))
    return sign_of_sum(high, low.copy_negate(), limit.copy_negate()) <= 0


def sign_of_sum(*terms: Decimal) -> int:
    """Return -1, 0 or 1: the sign of the exact sum of at most three numbers."""
    left = _by_size(terms)
    while len(left) > 1:
        first, second, *rest = left
        if first.adjusted() > second.adjusted() + 1:
            break  # the sum of the others is smaller than the first
        left = _by_size([_context(_digits_of_sum(first, second)).add(first, second), *rest])
    return int(left[0].compare(_ZERO)) if left else 0


def _by_size(terms: Iterable[Decimal]) -> list[Decimal]:
    return sorted((term for term in terms if term), key=Decimal.adjusted, reverse=True)


def _digits(number: Decimal) -> int:
    return max(1, number.adjusted() - _exponent(number) + 1)


def _digits_of_sum(one: Decimal, other: Decimal) -> int:
    return max(one.adjusted(), other.adjusted()) - min(_exponent(one), _exponent(other)) + 2


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "the number is finite"
    return exponent


def _context(digits: int) -> Context:
    return Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
