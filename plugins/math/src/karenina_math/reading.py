"""Reads a whole mathematical text into a tree. Nothing is computed, and no text is evaluated as a program."""

from __future__ import annotations

from typing import Final

from karenina_math.operands import APPLIED, Operands
from karenina_math.tokens import DEEPEST, NotReadable, TooLarge, tokens_of
from karenina_math.trees import SETS, Tree, beside, product, quotient

_MOST_SYMBOLS: Final = 20
_RELATIONS: Final = {
    "=": "=", "<": "<", ">": ">", "\\le": "<=", "\\leq": "<=", "\\leqslant": "<=", "\\ge": ">=", "\\geq": ">=",
    "\\geqslant": ">=", "\\lt": "<", "\\gt": ">", "\\ne": "!=", "\\neq": "!=", "\\in": "in",
}  # fmt: skip
_SET_SIGNS: Final = {"\\cup": "union", "\\cap": "intersection", "\\setminus": "difference", "\\backslash": "difference"}
_TIMES: Final = frozenset({"*", "\\cdot", "\\times", "\\ast"})
_INVERSE: Final[Tree] = ["minus", ["number", "1"]]
_OVER: Final = frozenset({"/", "\\div"})
_SEPARATORS: Final = frozenset({",", ";", "and", "or"})
_CLOSING: Final = frozenset(
    {")", "]", "}", "\\}", ",", ";", ":", "&", "\\\\", "\\end", "\\rfloor", "\\rceil", "\\rangle", "\\over", "\\choose"}
)


def read(text: str) -> Tree:
    """Parse mathematical text into a tree of nested lists, such as ["sum", ["symbol", "x"], ["number", "1"]]. Raises
    `NotReadable` if it is not an expression, and `TooLarge` if it is beyond a limit or has two readings.
    """
    reader = _Reader(tokens_of(text))
    if not reader.tokens:
        raise NotReadable("the value is empty")
    if len(reader.tokens) == 1 and (relation := _RELATIONS.get(reader.tokens[0].text)) is not None:
        return ["sign", relation]
    tree = reader.items()
    if reader.place < len(reader.tokens):
        raise NotReadable(f"unexpected {reader.tokens[reader.place].text!r}")
    if len(reader.symbols) > _MOST_SYMBOLS:
        raise TooLarge(f"there are more than {_MOST_SYMBOLS} symbols")
    if reader.free & reader.indices:
        raise TooLarge("the end of a sum is ambiguous")
    return tree[1] if tree[0] == "list" and len(tree) == 2 else tree


class _Reader(Operands):
    """A recursive-descent parser of tokens: lists, relations and operators."""

    def items(self) -> Tree:
        """Read items that are separated by commas, *and* or *or*, and return a tree of that kind ("list", "and" or
        "or") with them, even if there is only one. Raises `TooLarge` for both words.
        """
        found = [self._item()]
        words: set[str] = set()
        while (sign := self._next()) in _SEPARATORS:
            while (sign := self._next()) in _SEPARATORS:
                words.add(sign)
                self.place += 1
            found.append(self._item())
        words &= {"and", "or"}
        if len(words) > 1:
            raise TooLarge("the combination of 'and' and 'or' is ambiguous")
        return [words.pop() if words else "list", *found]

    def _item(self) -> Tree:
        """Read an expression or set, or a relation of several of them, such as *1 < x < 2*. Raises `TooLarge` if it is
        nested too deeply.
        """
        self._depth += 1
        if self._depth > DEEPEST:
            raise TooLarge(f"the value is nested more than {DEEPEST} levels deep")
        parts: Tree = [self._set()]
        if self._next() == ":":
            parts = [self._ratio(parts[0])]
        while (sign := _RELATIONS.get(self._next())) is not None:
            self.place += 1
            parts += [sign, self._set()]
            if self._next() == ":":
                parts.append(self._ratio(parts.pop()))
        self._depth -= 1
        return parts[0] if len(parts) == 1 else ["relation", *parts]

    def _ratio(self, first: Tree) -> Tree:
        """Read the rest of a ratio such as *3:2* after its first term. *2:30* becomes a "time", which may be either."""
        terms, last = [first], ""
        while self._take(":"):
            last = self._next()
            terms.append(self._set())
        is_time = len(terms) == 2 and len(last) == 2 and last.isdigit() and last < "60"
        return ["time" if is_time else "ratio", *terms]

    def _set(self) -> Tree:
        """Read a sum, and the further ones after signs of sets such as *\\cup*, which group from the left."""
        left = self._sum()
        if self._next() in ("\\over", "\\choose"):
            is_choice = self._take("\\choose") or not self._take("\\over")
            left = ["binomial", left, self._sum()] if is_choice else quotient(left, self._sum())
        while (kind := _SET_SIGNS.get(self._next())) is not None:
            self.place += 1
            left = [kind, left, self._sum()]
        return left

    def _sum(self) -> Tree:
        """Read a sum of products, or a single product, and return its tree. A minus between sets gives their
        difference.
        """
        terms: list[Tree] = []
        while True:
            sign = self._next()
            if sign in ("+", "-", "\\pm", "\\mp"):
                self.place += 1
            elif terms:
                break
            term = self._product()
            if sign == "-" and terms and terms[-1][0] in SETS and term[0] in SETS:
                terms[-1] = ["difference", terms[-1], term]
                continue
            kind = {"-": "minus", "\\pm": "pm", "\\mp": "mp"}.get(sign)
            terms.append([kind, term] if kind is not None else term)
        return terms[0] if len(terms) == 1 else ["sum", *terms]

    def _product(self) -> Tree:
        """Read a product or quotient, also without a sign, as in *2x*, or a mixed number. Raises `TooLarge` for *1/2x*
        (two readings), and `NotReadable` for another number after a factor.
        """
        left = self._power()
        after_slash = False
        while True:
            sign = self._next()
            if sign in _TIMES or sign in _OVER:
                self.place += 1
                minus = self._take("-")
                right = self._power()
                if minus:
                    right = ["minus", right]
                left = quotient(left, right) if sign in _OVER else product(left, right, sign)
                after_slash = sign == "/"
            elif self._starts_factor():
                if self._kind() == "number":
                    left, after_slash = self._mixed(left), True
                    continue
                if self._kind() in ("repeating", "based"):
                    raise NotReadable("a number follows another factor without an operator")
                if after_slash:
                    raise TooLarge("a product after a slash is ambiguous, as in 1/2x")
                right = self._power()
                left = beside(left, right)
            else:
                return left

    def _mixed(self, whole: Tree) -> Tree:
        """Read the fraction of a mixed number in plain text, such as *4 1/2*, after its whole part, and return the sum.
        Raises `NotReadable` if no proper fraction of integers follows, and `TooLarge` if a sign such as *!* does.
        """
        above, slash, below = (*(token.text for token in self.tokens[self.place : self.place + 3]), "", "")[:3]
        number = beside(whole, ["over", ["number", above], ["number", below]])
        if slash != "/" or number[0] != "sum":
            raise NotReadable("a number follows another factor without an operator")
        self.place += 3
        if self._next() in ("^", "!", "%"):
            raise TooLarge("an operator after a mixed number is ambiguous")
        return number

    def _power(self) -> Tree:
        """Read a factor with the signs after it: exponents, factorials, percent and degrees. Raises `NotReadable` for a
        factorial of more than two signs.
        """
        base = self._primary()
        while True:
            if self._take("!"):
                is_double = self._take("!")
                if is_double and self._next() == "!":
                    raise NotReadable("multiple factorials are not supported")
                base = ["double factorial" if is_double else "factorial", base]
            elif self._take("%"):
                base = ["percent", base]
            elif self._take("^"):
                if self._take("\\circ"):
                    base = ["degrees", base]
                    continue
                exponent = self._exponent()
                if base[:1] == ["symbol"] and base[1] in APPLIED and exponent == _INVERSE and self._next() == "(":
                    base = ["apply", f"{base[1]}^-1", self._primary()]
                    continue
                base = ["power", base, exponent]
            else:
                return base

    def _starts_factor(self) -> bool:
        """Return whether the next token starts a factor, so that a product without a sign continues."""
        text = self._next()
        if self._kind() in ("number", "repeating", "based", "word", "name"):
            return True
        if text == "|":
            return not self._bars
        if text in ("(", "[", "{"):
            return True
        known = _RELATIONS.keys() | _SET_SIGNS.keys() | _TIMES | _OVER | _CLOSING | {"\\pm", "\\mp", "\\circ"}
        return self._kind() == "command" and text not in known and not text.startswith("\\end{")
