"""Numbers in a judge's JSON that have digits which a float cannot represent."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation


class WrittenFloat(float):
    """A float that keeps the text it was read from as `written`, which is used for Decimals and strings."""

    written: str

    def __new__(cls, written: str | float) -> WrittenFloat:
        """Return a float from its text."""
        one = super().__new__(cls, written)
        one.written = str(written)
        return one


def read_float(text: str) -> float:
    """Return the float for a number in JSON, as a `WrittenFloat` if a float prints it differently.

    Raises `ValueError` for an exponent beyond the range of Decimal.
    """
    number = float(text)
    if repr(number) == text:
        return number
    try:
        Decimal(text)
    except InvalidOperation:
        raise ValueError(f"the number {text[:40]} is out of range") from None
    return WrittenFloat(text)


def restore_digits(given: object, read: object) -> object:
    """Return `read`, the value that pydantic made from `given`, with the digits that a float lost.

    A whole number that a float cannot represent (beyond 2**53) stays an int in a float field, and a Decimal gets its
    digits from the text. Lists, tuples and dictionaries are searched; fields of nested models are not.
    """
    if isinstance(read, float):
        return given if type(given) is int and given != read and _rounds_to(given, read) else read
    if isinstance(read, Decimal):
        return Decimal(given.written) if isinstance(given, WrittenFloat) and float(read) == given else read
    if isinstance(read, list | tuple) and isinstance(given, list) and len(read) == len(given):
        return type(read)(map(restore_digits, given, read)) if type(read) in (list, tuple) else read
    if type(read) is dict and isinstance(given, dict) and len(read) == len(given):
        return {key: restore_digits(one, other) for one, (key, other) in zip(given.values(), read.items(), strict=True)}
    return read


def _rounds_to(given: int, read: float) -> bool:
    try:
        return float(given) == read
    except OverflowError:
        return read in (float("inf"), float("-inf"))


def number_text(number: float) -> str:
    """Return a number from a judge's JSON as it was written."""
    return number.written if isinstance(number, WrittenFloat) else str(number)
