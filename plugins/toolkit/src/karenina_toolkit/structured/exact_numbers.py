"""Numbers of a judge's JSON whose digits a float does not keep."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation


class WrittenFloat(float):
    """A float with the text that was `written`, which a float prints otherwise: Decimals and texts take that one."""

    written: str

    def __new__(cls, written: str | float) -> WrittenFloat:
        """A float from its text."""
        one = super().__new__(cls, written)
        one.written = str(written)
        return one


def read_float(text: str) -> float:
    """Return the number that a JSON text is, as a `WrittenFloat` if a float prints it otherwise.

    Raises `ValueError` for an exponent that no Decimal can have.
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
    """Return `read`, which pydantic made of `given`, with the digits that a float lost.

    A whole number stays one in a float field, beyond 2**53 too, and a Decimal is what was written. Lists, tuples and
    mappings are looked through; fields of nested models are not.
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
    """Return a number of a judge's JSON as it was written."""
    return number.written if isinstance(number, WrittenFloat) else str(number)
