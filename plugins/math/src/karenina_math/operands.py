"""Reads what operators join: numbers, symbols, functions, brackets, matrices and sums with bounds."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Final

from karenina_math.tokens import FUNCTIONS, GREEK, Cursor, NotReadable, Token, TooLarge
from karenina_math.trees import Tree, contains, is_index, quotient, symbols_of
from karenina_toolkit.lazy_patterns import lazy_pattern

_FRACTIONS: Final = frozenset({"\\frac", "\\dfrac", "\\tfrac", "\\cfrac"})
_MATRICES: Final = frozenset({"matrix", "pmatrix", "bmatrix", "Bmatrix", "array"})
APPLIED: Final = frozenset({*"fghFGHPO", "Theta", "Omega"})
"""Names of functions, whatever their argument is."""
_OFTEN_APPLIED: Final = frozenset({"Gamma", "Delta", "Phi", "zeta", "delta", "E"})
"""Names that may be functions, whatever their argument is."""
_OF_TIME: Final = frozenset({*"xyuvsqT", "theta"})
"""Names that may be functions of *t* or *n*, as in *x(t - 2)* and *T(n/2)*."""
_ATOM: Final = r"-?(?:[\d.]+|(?:[A-Za-z]|\\[a-zA-Z]{2,})'*(?:_\w|_\{\w+\})?)"
_ATOMS: Final = lazy_pattern(f"{_ATOM}(?:,{_ATOM})*")
"""Bracketed text that is more likely an argument than a factor: *2*, *x*, or *x, t*."""
_BASES: Final = [str(base) for base in range(2, 37)]


class Operands(Cursor, ABC):
    """A parser of operands. The operators between them are read by a subclass."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self.symbols: set[str] = set()
        self.free: set[str] = set()
        """Symbols, and *i*, outside the sums whose index they are."""
        self.indices: set[str] = set()
        """All indices of sums."""
        self._bound: set[str] = set()
        self._bars = 0

    @abstractmethod
    def items(self) -> Tree:
        """Return a list of items."""

    @abstractmethod
    def _item(self) -> Tree:
        """Return an item: an expression, a set or a relation."""

    @abstractmethod
    def _product(self) -> Tree:
        """Return a product."""

    @abstractmethod
    def _power(self) -> Tree:
        """Return a factor."""

    @abstractmethod
    def _starts_factor(self) -> bool:
        """Return whether the next token starts a factor."""

    def _exponent(self) -> Tree:
        """Read the exponent after a *^*. Powers of powers group from the right. Raises `TooLarge` for a function
        that is applied several times.
        """
        if self._take("{"):
            if self._take("\\circ"):
                raise TooLarge("\\circ in an exponent is not supported")
            return self._until("}")
        if self._take("-"):
            return ["minus", self._exponent()]
        self._deeper()
        exponent = self._primary()
        if self._take("^"):
            exponent = ["power", exponent, self._exponent()]
        self._depth -= 1
        return exponent

    def _until(self, closing: str) -> Tree:
        """Read an expression and the sign that closes it, such as *}*, and return the expression."""
        bars, self._bars = self._bars, 0
        inner = self._item()
        self._bars = bars
        self._expect(closing)
        return inner

    def _primary(self) -> Tree:
        """Read the next number, symbol, function, bracket or matrix, and return its tree. Raises `NotReadable` at the
        end of the text.
        """
        if self.place >= len(self.tokens):
            raise NotReadable("the expression is incomplete")
        token = self.tokens[self.place]
        self.place += 1
        match token.kind:
            case "number":
                if self._take("_"):
                    return ["based", token.text, self._base(token.text)]
                return ["number", token.text]
            case "repeating":
                return ["repeating", token.text]
            case "based":
                prefixes = {"0x": 16, "0o": 8, "0b": 2}
                base = self._base(token.text) if self._take("_") else prefixes.get(token.text[:2], 16)
                return ["based", token.text, base]
            case "word":
                return self._symbol(token.text)
            case "name":
                return ["apply", token.text, self._primary()]
        return self._command(token.text) if token.kind == "command" else self._bracket(token.text)

    def _base(self, digits: str) -> int:
        """Read the base of a number such as *204_5*. Raises `NotReadable` if `digits` are not digits of that base."""
        base = self._argument()
        size = int(base[1]) if base[0] == "number" and base[1] in _BASES else 0
        if not digits.isalnum() or any(int(digit, 36) >= size for digit in digits):
            raise NotReadable("the base of the number is invalid")
        return size

    def _bracket(self, sign: str) -> Tree:
        """Read up to the bracket that closes `sign`: an absolute value, set, tuple, interval or condition, or a single
        item, which is returned without its brackets or braces. Raises `NotReadable` if the closing bracket is missing
        or does not fit, and `TooLarge` for an empty set in braces.
        """
        if sign == "|":
            self._bars += 1
            inner = self._item()
            self._bars -= 1
            self._expect("|")
            return ["function", "abs", inner]
        if sign == "{":
            if self._take("}"):
                return ["set"]
            bars, self._bars = self._bars, 0
            found = self.items()
            self._bars = bars
            self._expect("}")
            if found[1:] == [["set"]]:
                raise TooLarge("the braces may be those of a set with the empty set")
            return found[1] if len(found) == 2 else ["set", *found[1:]]
        if sign not in ("(", "["):
            raise NotReadable(f"unexpected {sign!r}")
        bars, self._bars = self._bars, 0
        inner = self.items()
        self._bars = bars
        closing = self._next()
        if closing not in (")", "]"):
            raise NotReadable(f"{sign!r} is not closed")
        self.place += 1
        if len(inner) == 2:
            if (sign == "(") is not (closing == ")"):
                raise NotReadable("a bracket is closed by a bracket of a different kind")
            only: Tree = inner[1]
            return only
        if sign == "(" and closing == ")":
            is_condition = inner[0] in ("and", "or") and all(item[0] == "relation" for item in inner[1:])
            return inner if is_condition else ["tuple", *inner[1:]]
        if len(inner) == 3:
            return ["interval", sign == "[", closing == "]", inner[1], inner[2]]
        if sign == "[" and closing == "]":
            return ["tuple", *inner[1:]]
        raise NotReadable("an interval must have two endpoints")

    def _command(self, name: str) -> Tree:
        """Read the arguments of the LaTeX command or function `name`, and return its tree. Raises `NotReadable` or
        `TooLarge` if it is not supported.
        """
        plain = name[1:]
        if name in _FRACTIONS:
            return quotient(self._argument(), self._argument())
        if name == "\\sqrt":
            index = None
            if self._take("["):
                index = self._until("]")
            inner = self._argument()
            return ["root", inner, index] if index is not None else ["root", inner, ["number", "2"]]
        if plain in FUNCTIONS:
            return self._function(plain)
        if plain in GREEK or plain in ("hbar", "ell"):
            return self._symbol(plain)
        match name:
            case "\\bold":
                tree = self._primary()
                return [*tree, "bold"] if tree[0] == "symbol" else tree
            case "\\pi" if self.place == 1 and re.fullmatch(r"\(\d+\)", self._rest()):
                return ["call", ["constant", "pi"], self._primary()]
            case "\\pi" | "\\infty":
                return ["constant", plain]
            case "\\emptyset" | "\\varnothing":
                return ["set"]
            case "\\binom" | "\\dbinom" | "\\tbinom":
                return ["binomial", self._argument(), self._argument()]
            case "\\{":
                if self._take("\\}"):
                    return ["set"]
                found = self.items()
                if any(item[0] == "relation" and contains(item[1::2], "ratio") for item in found[1:]):
                    raise TooLarge("sets with conditions are not supported")
                self._expect("\\}")
                return ["set", *found[1:]]
            case "\\langle":
                found = self.items()
                self._expect("\\rangle")
                return ["tuple", *found[1:]]
            case "\\sum" | "\\prod":
                return self._series(plain)
            case "\\lfloor" | "\\lceil":
                closing = name.replace("l", "r", 1)
                return ["function", "floor" if plain == "lfloor" else "ceil", self._until(closing)]
            case "\\mathbb" if self._take("{"):
                kind = self._next()
                self.place += 1
                self._expect("}")
                if kind != "R":
                    raise TooLarge(f"the set {kind} is not supported")
                return ["reals"]
        if name.startswith("\\begin{"):
            return self._matrix(name[7:-1])
        raise NotReadable(f"{name} is not supported")

    def _function(self, name: str) -> Tree:
        """Read the argument of a function, if any, and the base or exponent before it, as in *sin^2 x* and *log_2 8*;
        *sin^{-1}* is *arcsin*. Raises `NotReadable` if they do not fit the function, and `TooLarge` if the argument is
        unclear.

        Without brackets, the argument extends over the following factors: *sin 2x* is *sin(2x)*.
        """
        base = exponent = None
        for _ in range(2):
            if self._take("_"):
                base = self._argument()
            elif self._take("^"):
                exponent = self._exponent()
        if self._next() in ("(", "{", "["):
            argument = self._primary()
        elif not self._starts_factor() and self._next() not in ("-", "\\pm", "\\mp"):
            argument = ["symbol", ""]  # the function itself, such as *\\cos*
            self.symbols.add("")
        else:
            self._deeper()
            argument = self._power()
            while self._starts_factor() and self._next()[1:] not in FUNCTIONS and self._next() not in ("(", "["):
                argument = ["times", argument, self._power()]
            self._depth -= 1
            if "" in symbols_of(argument):
                raise TooLarge(f"the argument of {name} is unclear")
        if argument[0] == "tuple":
            raise NotReadable(f"{name} takes only one argument")
        if base is not None and name != "log":
            raise NotReadable(f"{name} cannot have a subscript")
        if exponent == ["minus", ["number", "1"]]:
            if base is not None:
                raise TooLarge("a logarithm with a base and the exponent -1 may be its inverse or its reciprocal")
            return ["function", f"arc{name}", argument]
        tree = ["logarithm", base, argument] if base is not None else ["function", name, argument]
        return tree if exponent is None else ["power", tree, exponent]

    def _series(self, kind: str) -> Tree:
        """Read a sum or product with bounds, such as *\\sum_{k=1}^{n} k^2*. It ends at a plus or minus. Raises
        `NotReadable` if a bound is missing or of another form.
        """
        before = frozenset(self.free)
        low: Tree = []
        high: Tree = []
        for _ in range(2):
            if self._take("_"):
                low = self._argument()
            elif self._take("^"):
                high = self._exponent()
        if not high or low[:1] != ["relation"] or len(low) != 4 or low[2] != "=" or not is_index(low[1]):
            raise NotReadable(f"a {kind} needs bounds such as k=1 and n")
        index = low[1][1]
        if index not in before:
            self.symbols.discard(index)
            self.free.discard(index)
        self.indices.add(index)
        bound, self._bound = self._bound, self._bound | {index}
        self._deeper()
        body = self._product()
        self._depth -= 1
        self._bound = bound
        return ["series", kind, index, low[3], high, body]

    def _argument(self) -> Tree:
        """Read an argument of a command: an expression in braces, the first digit of a number, or an operand."""
        if self._take("{"):
            return self._until("}")
        token = self.tokens[self.place] if self.place < len(self.tokens) else None
        if token is not None and token.kind == "number" and len(token.text) > 1 and token.text.isdigit():
            self.tokens[self.place] = Token("number", token.text[1:])
            return ["number", token.text[0]]
        self._deeper()
        tree = self._primary()
        self._depth -= 1
        return tree

    def _symbol(self, name: str) -> Tree:
        """Read what follows a name: return a symbol with its subscript, the constant *e* or *i*, a function, or a
        "call" such as *f(x)* if it may also be a product. *\\Delta x* is one symbol.
        """
        if self._take("_"):
            index = self._index()
            if not isinstance(index, str):
                return ["apply", f"{name}_", index]
            name = f"{name}_{index}"
        elif name == "e" or (name == "i" and name not in self._bound):
            self.free.add(name)
            return ["constant", name]
        elif name in APPLIED and self._next() == "(" and not self._contains_itself(name):
            return ["apply", name, self._primary()]
        is_letter = self._kind() == "word" or self._next()[1:] in GREEK
        if is_letter and name.rpartition(" ")[2].startswith("Delta"):
            self.place += 1
            return self._symbol(f"{name} {self.tokens[self.place - 1].text.lstrip(chr(92))}")
        if is_letter and name == "delta":
            self._deeper()
            factor = self._primary()
            self._depth -= 1
            self.symbols.add(name)
            return ["call", ["symbol", name], factor]
        while self._take("'"):
            name += "'"
        if self._next() == "(" and name.endswith("'"):
            return ["apply", name, self._primary()]
        if self._next() in ("(", "[") and name not in self._bound and self._may_be_function(name):
            self.symbols.add(name)
            return ["call", ["symbol", name], self._primary()]
        if name not in self._bound:
            self.symbols.add(name)
            self.free.add(name)
        return ["symbol", name]

    def _inside(self) -> list[Token]:
        """Return the tokens in the brackets that come next without reading them, or none if these are not closed."""
        depth = 0
        for place in range(self.place, len(self.tokens)):
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(self.tokens[place].text, 0)
            if not depth:
                return self.tokens[self.place + 1 : place]
        return []

    def _contains_itself(self, name: str) -> bool:
        """Return whether a name is in the brackets that come next, as in *n(n+1)*, which is a product."""
        texts = [token.text.lstrip("\\") for token in self._inside()]
        return any(one == name and after not in ("(", "[") for one, after in pairwise([*texts, ""]))

    def _may_be_function(self, name: str) -> bool:
        """Return whether the brackets that come next may contain the argument of a function `name`, not a factor."""
        inside = self._inside()
        if not inside or self._contains_itself(name):
            return False
        if self._next() == "[" and any(token.text == "," for token in inside):  # an interval
            return False
        text = "".join(token.text for token in inside)
        letters = {token.text for token in inside if token.kind == "word" or token.text[1:] in GREEK}
        is_time = name in _OF_TIME and letters in ({"t"}, {"n"}) and "_" not in text  # v(t - t_0) is a distance
        return is_time or name in _OFTEN_APPLIED or bool(_ATOMS.fullmatch(text))

    def _rest(self) -> str:
        """Return the text of the tokens that come next."""
        return "".join(token.text for token in self.tokens[self.place :])

    def _index(self) -> str | Tree:
        """Read a subscript: a string such as *12* or *max*, or an expression such as *n-1* or the index of a sum.
        Raises `TooLarge` for several indices of sums.
        """
        in_braces = self._take("{")
        parts: list[str] = []
        start = self.place
        while self._next().isalnum() and (in_braces or not parts):
            parts.append(self._next())
            self.place += 1
        if not in_braces or self._next() == "}":
            is_bound = not self._bound.isdisjoint(parts)
            if is_bound and len(parts) > 1:
                raise TooLarge("subscripts with several summation indices are not supported")
            if parts and not is_bound:
                self.place += in_braces
                return "".join(parts)
        self.place = start
        return self._until("}") if in_braces else self._primary()

    def _matrix(self, name: str) -> Tree:
        """Read a matrix up to its *\\end*, after its *\\begin*. Raises `NotReadable` if it is of an unknown kind, is
        empty or not closed, or has rows that differ in length.
        """
        if name not in _MATRICES:
            raise NotReadable(f"{name} is not supported")
        if name == "array" and self._take("{"):
            while not self._take("}"):
                if self.place >= len(self.tokens):
                    raise NotReadable("the array is not closed")
                self.place += 1
        end = f"\\end{{{name}}}"
        rows: list[Tree] = [[]]
        while not self._take(end):
            rows[-1].append(self._item())
            if self._take("\\\\"):
                if self._next() != end:
                    rows.append([])
            elif self._next() != end:
                self._expect("&")
        if len({len(row) for row in rows}) != 1:
            raise NotReadable("the rows of the matrix differ in length")
        if not rows[0]:
            raise NotReadable("the matrix is empty")
        return ["matrix", *rows]
