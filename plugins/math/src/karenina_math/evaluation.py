"""Computes the value of a tree, with symbols set to numbers: exactly for rational numbers, else with 60 digits.

Runs in child processes only, because a computation may take long.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Set
from fractions import Fraction
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]

from karenina_math.trees import Tree

DIGITS: Final = 60
_GUARD_DIGITS: Final = 15
"""Number of last digits that rounding may change."""
_MOST_BITS: Final = 20_000
_LARGEST_FACTORIAL: Final = 2_000
_MOST_TERMS: Final = 1_000
Value = Any
"""A Fraction, or a real or complex number of mpmath."""

mpmath.mp.dps = DIGITS
_FUNCTIONS: Final[Mapping[str, Callable[[Value], Value]]] = {
    "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "cot": mpmath.cot, "sec": mpmath.sec, "csc": mpmath.csc,
    "arcsin": mpmath.asin, "arccos": mpmath.acos, "arctan": mpmath.atan, "asin": mpmath.asin, "acos": mpmath.acos,
    "atan": mpmath.atan, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh, "ln": mpmath.log,
    "lg": mpmath.log10, "exp": mpmath.exp, "arcsinh": mpmath.asinh, "arccosh": mpmath.acosh, "arctanh": mpmath.atanh,
    "cis": mpmath.expj,
}  # fmt: skip


class NoValue(ValueError):
    """Raised if a tree has no value, such as a division by zero."""


class OutOfReach(ValueError):
    """Raised if a number is too large to be computed."""


class Point:
    """An assignment of numbers to symbols, with the meanings of *log* and degrees and the sign of *±*."""

    def __init__(
        self, symbols: Callable[[str], Value], *, common: bool = False, degrees: bool = True, sign: int = 1
    ) -> None:
        self.symbols, self.common, self.degrees, self.sign = symbols, common, degrees, sign

    def with_symbol(self, name: str, value: Value) -> Point:
        """Return a copy of the point with the number `value` for the symbol `name`."""
        symbols = {name: value}
        return Point(
            lambda other: symbols[other] if other in symbols else self.symbols(other),
            common=self.common,
            degrees=self.degrees,
            sign=self.sign,
        )


class TrialNumbers:
    """Numbers for symbols that depend on their names and on the trial alone."""

    def __init__(self, trial: int, domain: str, whole: Set[str]) -> None:
        self._trial, self._domain, self._whole = trial, domain, whole

    def __call__(self, name: str) -> Any:
        """Return the number for a symbol, which is always the same for this name and trial, and fits the domain."""
        source = random.Random(f"{self._trial} {name}")  # noqa: S311 - points, not secrets
        sign = 1 if (source.random() < 0.5) ^ bool(self._trial % 2) else -1
        if "(" in name:
            sign = 1
        if self._domain == "integer" or name in self._whole:
            return Fraction(source.randint(1, 12))
        size = Fraction(source.randint(10**8, 3 * 10**9), 10**9)
        if self._domain == "complex":
            return mpmath.mpc(number(size * sign), source.uniform(-2, 2))
        return size if self._domain == "positive" else size * sign


def value_of(tree: Tree, point: Point) -> Value:
    """Return the value of an expression at a point, as a `Fraction` if it is exact, otherwise as a number of mpmath.
    Raises `NoValue` if it has none, such as for a division by zero, and `OutOfReach` if it is too large to compute.
    """
    try:
        value = _value(tree, point)
    except (NoValue, OutOfReach):
        raise
    except (ValueError, ZeroDivisionError, OverflowError) as error:  # mpmath raises ValueError at a pole
        raise NoValue(str(error)) from None
    if not isinstance(value, Fraction) and mpmath.isnan(value):
        raise NoValue("not a number")
    return value


def equal(one: Value, other: Value, tolerance: Fraction = Fraction(0)) -> bool:
    """Return whether two numbers differ by at most `tolerance`, plus a rounding error unless both are exact."""
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return abs(one - other) <= tolerance
    one, other = number(one), number(other)
    if mpmath.isinf(one) or mpmath.isinf(other):
        return bool(one == other)
    slack = mpmath.mpf(10) ** (_GUARD_DIGITS - mpmath.mp.dps) * max(1, abs(one), abs(other))
    return bool(abs(one - other) <= slack + number(tolerance))


def still_equal(rough: tuple[Value, Value], exact: tuple[Value, Value]) -> bool:
    """Return whether two equal numbers are still equal if they are computed with more digits. A difference of rounding
    errors, such as that of *sin(pi)* and 0, gets smaller then, and that of *e^{-200}* and 0 does not.
    """
    before, after = (abs(number(one) - number(other)) for one, other in (rough, exact))
    return equal(*exact) and not 0 < before < 2 * after


def number(value: Value) -> Value:
    """Return a number of mpmath."""
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


def _value(tree: Tree, point: Point) -> Value:
    """Return the value of an expression, like `value_of`, but let arithmetic errors such as division by zero propagate.
    Raises `NoValue` if the expression has no value at the point.
    """
    kind, parts = tree[0], tree[1:]
    match kind:
        case "number":
            _check_exponent(parts[0])
            return Fraction(parts[0])
        case "based":
            return Fraction(int(parts[0], parts[1]))
        case "repeating":
            return _repeating(parts[0])
        case "symbol":
            return point.symbols(parts[0])
        case "constant":
            return {"pi": mpmath.mpf(mpmath.pi), "e": mpmath.mpf(mpmath.e), "i": mpmath.mpc(0, 1),
                    "infty": mpmath.inf}[parts[0]]  # fmt: skip
    if kind == "apply":
        return _applied(parts[0], parts[1], point)
    if kind == "series":
        return _series(parts, point)
    values = [_value(part, point) for part in parts if isinstance(part, list)]
    match kind:
        case "sum":
            total = values[0]
            for value in values[1:]:
                total = _combine(total, value, "+")
            return total
        case "minus":
            return -values[0]
        case "pm" | "mp":
            return values[0] * (point.sign if kind == "pm" else -point.sign)
        case "times":
            return _combine(values[0], values[1], "*")
        case "over":
            return _combine(values[0], values[1], "/")
        case "power":
            return _power(values[0], values[1])
        case "root":
            return _root(values[0], values[1])
        case "percent":
            return _combine(values[0], Fraction(100), "/")
        case "factorial":
            return _factorial(values[0])
        case "double factorial":
            return _double_factorial(values[0])
        case "binomial":
            return _binomial(values[0], values[1])
        case "degrees":
            return number(values[0]) * mpmath.pi / 180 if point.degrees else values[0]
        case "logarithm":
            return mpmath.log(number(values[1])) / mpmath.log(number(values[0]))
        case "function":
            return _function(parts[0], values[0], point)
    raise NoValue(f"a {kind} is not a number")


def _combine(one: Value, other: Value, sign: str) -> Value:
    """Return a sum, product or quotient, as `sign` is `+`, `*` or `/`, exactly if both numbers are rational. Raises
    `ZeroDivisionError` for a division by zero.
    """
    if not (isinstance(one, Fraction) and isinstance(other, Fraction)):
        one, other = number(one), number(other)
        if sign == "/" and other == 0:
            raise ZeroDivisionError("division by zero")
    if sign == "+":
        return one + other
    return one * other if sign == "*" else one / other


def _check_exponent(written: str) -> None:
    """Raise `OutOfReach` for a number such as 1e999999."""
    exponent = written.lower().partition("e")[2]
    if exponent and abs(int(exponent)) > _MOST_BITS // 4:
        raise OutOfReach("the exponent of a number is too large")


def _repeating(written: str) -> Fraction:
    """Return the value of a repeating decimal, such as *0.1\\overline{6}*."""
    fixed, _, rest = written.partition("\\overline")
    period = rest.strip().strip("{}")
    places = len(fixed.partition(".")[2])
    whole = Fraction(fixed + "0" if fixed.endswith(".") else fixed)
    return whole + Fraction(int(period), (10 ** len(period) - 1) * 10**places)


def _power(base: Value, exponent: Value) -> Value:
    """Return a power, exactly for a fraction and an integer. *0^0* is 1, and powers of negative numbers may be complex.
    Raises `OutOfReach` if it has too many digits, `NoValue` if the base or the exponent is infinite, and
    `ZeroDivisionError` for zero to a negative power.
    """
    if mpmath.isinf(number(base)) or mpmath.isinf(number(exponent)):
        raise NoValue("a power of infinity")
    if base == 0:
        if mpmath.re(number(exponent)) <= 0 and exponent != 0:
            raise ZeroDivisionError("zero to a negative power")
        return Fraction(1 if exponent == 0 else 0)
    size = abs(number(exponent)) * (abs(mpmath.log(abs(number(base)), 2)) + 1)
    if size > _MOST_BITS:
        raise OutOfReach("a power has too many digits")
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        return base ** int(exponent)
    return mpmath.power(number(base), number(exponent))


def _root(inner: Value, index: Value) -> Value:
    """Return the root of `inner` with an index. Odd roots of negative numbers are real, even ones are complex."""
    if isinstance(inner, Fraction) and index == 2 and inner >= 0:
        above, below = math.isqrt(inner.numerator), math.isqrt(inner.denominator)
        if above**2 == inner.numerator and below**2 == inner.denominator:
            return Fraction(above, below)
    value = number(inner)
    if isinstance(index, Fraction) and index.denominator == 1 and index % 2 and mpmath.im(value) == 0:
        real = mpmath.re(value)
        return mpmath.sign(real) * _power(abs(real), 1 / index) if real else Fraction(0)
    return _power(value, _combine(Fraction(1), index, "/"))


def _factorial(value: Value) -> Value:
    """Return a factorial, or a value of the gamma function between integers. Raises `OutOfReach` if it is too large."""
    if abs(number(value)) > _LARGEST_FACTORIAL:
        raise OutOfReach("a factorial is too large")
    if isinstance(value, Fraction) and value.denominator == 1 and value >= 0:
        return Fraction(math.factorial(int(value)))
    return mpmath.factorial(number(value))


def _double_factorial(value: Value) -> Value:
    """Return a double factorial, such as 15 for *5!!*. Raises `OutOfReach` if it is too large."""
    if abs(number(value)) > _LARGEST_FACTORIAL:
        raise OutOfReach("a factorial is too large")
    if isinstance(value, Fraction) and value.denominator == 1 and value >= 0:
        return Fraction(math.prod(range(int(value), 0, -2)))
    return mpmath.fac2(number(value))


def _binomial(above: Value, below: Value) -> Value:
    """Return a binomial coefficient. Raises `OutOfReach` if it is too large."""
    if abs(number(above)) > _LARGEST_FACTORIAL or abs(number(below)) > _LARGEST_FACTORIAL:
        raise OutOfReach("a binomial coefficient is too large")
    both = (above, below)
    if all(isinstance(value, Fraction) and value.denominator == 1 and value >= 0 for value in both):
        return Fraction(math.comb(int(above), int(below)))
    return mpmath.binomial(number(above), number(below))


def _series(parts: list[Any], point: Point) -> Value:
    """Return the value of a sum or product with bounds, given its kind, index, bounds and body. If the upper bound is
    below the lower one, a sum is 0 and a product 1. Raises `OutOfReach` if it has infinitely many terms, or too many,
    or a complex bound, and `NoValue` if a bound is not an integer.
    """
    kind, index, low, high, body = parts
    first, last = _value(low, point), _value(high, point)
    if any(isinstance(bound, mpmath.mpc) for bound in (first, last)):
        raise OutOfReach("a bound of a sum or product is a complex number, unless i is a symbol")
    if mpmath.isinf(number(first)) or mpmath.isinf(number(last)) or last - first > _MOST_TERMS:
        raise OutOfReach(f"sums and products of more than {_MOST_TERMS:,} terms are not supported")
    if not all(isinstance(bound, Fraction) and bound.denominator == 1 for bound in (first, last)):
        raise NoValue("a bound of a sum or product is not an integer")
    total = Fraction(0 if kind == "sum" else 1)
    for term in range(int(first), int(last) + 1):
        total = _combine(total, _value(body, point.with_symbol(index, Fraction(term))), "+" if kind == "sum" else "*")
    return total


def _function(name: str, value: Value, point: Point) -> Value:
    """Return the value of a known function, such as *sin*, for a number. Raises `NoValue` for other functions and
    for rounded complex numbers, and `OutOfReach` if the number is too large.
    """
    if name == "abs":
        return abs(value)
    if name in ("floor", "ceil"):
        real = value if isinstance(value, Fraction) else mpmath.re(value)
        if not equal(value, real):
            raise NoValue(f"the {name} of a complex number")
        if not isinstance(real, Fraction):
            nearest = Fraction(int(mpmath.nint(real)))
            real = nearest if equal(real, nearest) else Fraction(*real.as_integer_ratio())
        return Fraction(math.floor(real) if name == "floor" else math.ceil(real))
    value = number(value)
    if abs(value) > _MOST_BITS and name not in ("ln", "lg", "log", "arctan", "atan"):
        raise OutOfReach("the argument of a function is too large")
    if name == "log":
        return mpmath.log10(value) if point.common else mpmath.log(value)
    if name == "sqrt":
        return mpmath.sqrt(value)
    if name not in _FUNCTIONS:
        raise NoValue(f"the function {name} is not supported")
    return _FUNCTIONS[name](value)


def _applied(name: str, argument: Tree, point: Point) -> Value:
    """Return a number to stand for the value of an unknown function, which depends on its name and arguments alone."""
    values = argument[1:] if argument[0] == "tuple" else [argument]
    if name.endswith("_"):  # a subscript
        index = _value(argument, point)
        if isinstance(index, Fraction) and index.denominator == 1:
            return point.symbols(f"{name}{index}")
    texts = [mpmath.nstr(number(_value(value, point)), 30) for value in values]
    return point.symbols(f"{name}({','.join(texts)})")
