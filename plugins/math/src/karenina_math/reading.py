"""Reads a whole mathematical text into a tree. Nothing is computed, and no text is evaluated as a program."""

from __future__ import annotations

from typing import Final

from karenina_math.tokens import FUNCTIONS, GREEK, NotReadable, Token, TooLarge, tokens_of
from karenina_math.trees import Tree, beside, quotient

DEEPEST: Final = 60
_MOST_SYMBOLS: Final = 20
_RELATIONS: Final = {
    "=": "=", "<": "<", ">": ">", "\\le": "<=", "\\leq": "<=", "\\leqslant": "<=", "\\ge": ">=", "\\geq": ">=",
    "\\geqslant": ">=", "\\lt": "<", "\\gt": ">", "\\ne": "!=", "\\neq": "!=", "\\in": "in",
}  # fmt: skip
_SET_SIGNS: Final = {"\\cup": "union", "\\cap": "intersection", "\\setminus": "difference", "\\backslash": "difference"}
_TIMES: Final = frozenset({"*", "\\cdot", "\\times", "\\ast"})
_OVER: Final = frozenset({"/", "\\div"})
_FRACTIONS: Final = frozenset({"\\frac", "\\dfrac", "\\tfrac", "\\cfrac"})
_MATRICES: Final = frozenset({"matrix", "pmatrix", "bmatrix", "Bmatrix", "array"})
_APPLIED: Final = frozenset("fghFGHP")
_SEPARATORS: Final = frozenset({",", ";", "and", "or"})
_BASES: Final = [str(base) for base in range(2, 37)]
_CLOSING: Final = frozenset(
    {")", "]", "}", "\\}", ",", ";", ":", "&", "\\\\", "\\end", "\\rfloor", "\\rceil", "\\rangle"}
)


def read(text: str) -> Tree:
    """Return the tree of a text. Raises `NotReadable` if it is not an expression, and `TooLarge` beyond a limit."""
    reader = _Reader(tokens_of(text))
    if not reader.tokens:
        raise NotReadable("the value is empty")
    tree = reader.items()
    if reader.place < len(reader.tokens):
        raise NotReadable(f"{reader.tokens[reader.place].text!r} is not expected")
    if len(reader.symbols) > _MOST_SYMBOLS:
        raise TooLarge(f"there are more than {_MOST_SYMBOLS} symbols")
    return tree[1] if tree[0] == "list" and len(tree) == 2 else tree


class _Reader:
    """A recursive-descent parser of tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.symbols: set[str] = set()
        self._depth = 0
        self._bars = 0

    def items(self) -> Tree:
        """Return a list of items that are separated by commas, *and* or *or*. Raises `TooLarge` for both words."""
        found = [self._item()]
        words: set[str] = set()
        while (sign := self._next()) in _SEPARATORS:
            while (sign := self._next()) in _SEPARATORS:
                words.add(sign)
                self.place += 1
            found.append(self._item())
        words &= {"and", "or"}
        if len(words) > 1:
            raise TooLarge("'and' beside 'or' has two readings")
        return [words.pop() if words else "list", *found]

    def _item(self) -> Tree:
        """Return an expression, a set, or a relation of several of them."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise TooLarge(f"the value is nested more than {DEEPEST} deep")
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
        """Return a ratio such as *3:2*, whose first term was read. *2:30* may be a time."""
        terms, last = [first], ""
        while self._take(":"):
            last = self._next()
            terms.append(self._set())
        is_time = len(terms) == 2 and len(last) == 2 and last.isdigit() and last < "60"
        return ["time" if is_time else "ratio", *terms]

    def _set(self) -> Tree:
        """Return a sum, or several sets with the signs between them."""
        left = self._sum()
        while (kind := _SET_SIGNS.get(self._next())) is not None:
            self.place += 1
            left = [kind, left, self._sum()]
        return left

    def _sum(self) -> Tree:
        """Return a sum of products."""
        terms: list[Tree] = []
        while True:
            sign = self._next()
            if sign in ("+", "-", "\\pm", "\\mp"):
                self.place += 1
            elif terms:
                break
            term = self._product()
            kind = {"-": "minus", "\\pm": "pm", "\\mp": "mp"}.get(sign)
            terms.append([kind, term] if kind is not None else term)
        return terms[0] if len(terms) == 1 else ["sum", *terms]

    def _product(self) -> Tree:
        """Return a product or quotient, also without a sign. Raises `TooLarge` for *1/2x*, which has two readings."""
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
                left = quotient(left, right) if sign in _OVER else ["times", left, right]
                after_slash = sign == "/"
            elif self._starts_factor():
                if self._kind() in ("number", "repeating"):
                    raise NotReadable("a number follows another factor")
                if after_slash:
                    raise TooLarge("a product after a slash has two readings, as in 1/2x")
                right = self._power()
                left = beside(left, right)
            else:
                return left

    def _power(self) -> Tree:
        """Return a factor with the signs after it: exponent, factorial, percent, degrees."""
        base = self._primary()
        while True:
            if self._take("!"):
                is_double = self._take("!")
                if is_double and self._next() == "!":
                    raise NotReadable("a multiple factorial is not read")
                base = ["double factorial" if is_double else "factorial", base]
            elif self._take("%"):
                base = ["percent", base]
            elif self._take("^"):
                if self._take("\\circ"):
                    base = ["degrees", base]
                    continue
                base = ["power", base, self._exponent()]
            else:
                return base

    def _exponent(self) -> Tree:
        """Return what follows a *^*. Powers of powers group from the right."""
        if self._take("{"):
            if self._take("\\circ"):
                raise TooLarge("a sign for degrees in braces is not read")
            return self._until("}")
        if self._take("-"):
            return ["minus", self._exponent()]
        self._deeper()
        exponent = self._primary()
        if self._take("^"):
            exponent = ["power", exponent, self._exponent()]
        self._depth -= 1
        return exponent

    def _deeper(self) -> None:
        """Count a level. Raises `TooLarge` if there are too many."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise TooLarge(f"the value is nested more than {DEEPEST} deep")

    def _until(self, closing: str) -> Tree:
        """Return the expression before a closing sign."""
        bars, self._bars = self._bars, 0
        inner = self._item()
        self._bars = bars
        self._expect(closing)
        return inner

    def _primary(self) -> Tree:
        """Return a number, symbol, function, bracket or matrix."""
        if self.place >= len(self.tokens):
            raise NotReadable("the expression is not complete")
        token = self.tokens[self.place]
        self.place += 1
        match token.kind:
            case "number":
                if self._take("_"):
                    return ["based", token.text, self._base(token.text)]
                return ["number", token.text]
            case "repeating":
                return ["repeating", token.text]
            case "word":
                return self._symbol(token.text)
        return self._command(token.text) if token.kind == "command" else self._bracket(token.text)

    def _base(self, digits: str) -> int:
        """Return the base of a number such as *204_5*. Raises `NotReadable` unless it has only digits of that base."""
        base = self._argument()
        size = int(base[1]) if base[0] == "number" and base[1] in _BASES else 0
        if not digits.isdigit() or any(int(digit) >= size for digit in digits):
            raise NotReadable("the base of a number is not possible")
        return size

    def _bracket(self, sign: str) -> Tree:
        """Return what is in brackets."""
        if sign == "|":
            self._bars += 1
            inner = self._item()
            self._bars -= 1
            self._expect("|")
            return ["function", "abs", inner]
        if sign == "{":
            bars, self._bars = self._bars, 0
            found = self.items()
            self._bars = bars
            self._expect("}")
            return found[1] if len(found) == 2 else ["set", *found[1:]]
        if sign not in ("(", "["):
            raise NotReadable(f"{sign!r} is not expected")
        bars, self._bars = self._bars, 0
        inner = self.items()
        self._bars = bars
        closing = self._next()
        if closing not in (")", "]"):
            raise NotReadable(f"{sign!r} is not closed")
        self.place += 1
        if len(inner) == 2:
            if (sign == "(") is not (closing == ")"):
                raise NotReadable("a bracket is closed by another kind")
            only: Tree = inner[1]
            return only
        if sign == "(" and closing == ")":
            is_condition = inner[0] in ("and", "or") and all(item[0] == "relation" for item in inner[1:])
            return inner if is_condition else ["tuple", *inner[1:]]
        if len(inner) == 3:
            return ["interval", sign == "[", closing == "]", inner[1], inner[2]]
        if sign == "[" and closing == "]":
            return ["tuple", *inner[1:]]
        raise NotReadable("an interval has two ends")

    def _command(self, name: str) -> Tree:
        """Return what a command of LaTeX, or a function in plain text, stands for."""
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
        if plain in GREEK:
            return self._symbol(plain)
        match name:
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
                if any(item[0] == "relation" and item[1][0] == "ratio" for item in found[1:]):
                    raise TooLarge("a set with a condition is not read")
                self._expect("\\}")
                return ["set", *found[1:]]
            case "\\lfloor" | "\\lceil":
                closing = name.replace("l", "r", 1)
                return ["function", "floor" if plain == "lfloor" else "ceil", self._until(closing)]
            case "\\mathbb" if self._take("{"):
                kind = self._next()
                self.place += 1
                self._expect("}")
                if kind != "R":
                    raise TooLarge(f"the set {kind} is not read")
                return ["reals"]
        if name.startswith("\\begin{"):
            return self._matrix(name[7:-1])
        raise NotReadable(f"{name} is not read")

    def _function(self, name: str) -> Tree:
        """Return a function with its argument: *sin^2 x*, *log_2 8*."""
        base = exponent = None
        for _ in range(2):
            if self._take("_"):
                base = self._argument()
            elif self._take("^"):
                exponent = self._exponent()
        if self._next() in ("(", "{", "["):
            argument = self._primary()
        else:
            self._deeper()
            argument = self._power()
            while self._starts_factor() and self._next()[1:] not in FUNCTIONS and self._next() not in ("(", "["):
                argument = ["times", argument, self._power()]
            self._depth -= 1
        if argument[0] == "tuple":
            raise NotReadable(f"{name} has several arguments")
        if exponent == ["minus", ["number", "1"]]:
            return ["function", f"arc{name}", argument]
        if base is not None and name != "log":
            raise NotReadable(f"{name} has a subscript")
        tree = ["logarithm", base, argument] if base is not None else ["function", name, argument]
        return tree if exponent is None else ["power", tree, exponent]

    def _argument(self) -> Tree:
        """Return an argument of a command: in braces, or a single digit or sign."""
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
        """Return a symbol with its subscript, or the constant *e* or *i*."""
        if self._take("_"):
            self._take("{")
            index = self._next()
            self.place += 1
            if not index.isalnum():
                raise NotReadable("a subscript is not read")
            if self.tokens[self.place - 2].text == "{":
                while self._next().isalnum():
                    index += self._next()
                    self.place += 1
                self._expect("}")
            name = f"{name}_{index}"
        elif name in ("e", "i"):
            return ["constant", name]
        elif name in _APPLIED and self._next() == "(":
            return ["apply", name, self._primary()]
        while self._take("'"):
            name += "'"
        self.symbols.add(name)
        return ["symbol", name]

    def _matrix(self, name: str) -> Tree:
        """Return a matrix, whose *\\begin* was read."""
        if name not in _MATRICES:
            raise NotReadable(f"{name} is not read")
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
            raise NotReadable("the matrix is not complete")
        return ["matrix", *rows]

    def _starts_factor(self) -> bool:
        """Return whether the next token starts a factor, so that a product without a sign goes on."""
        text = self._next()
        if self._kind() in ("number", "repeating", "word"):
            return True
        if text == "|":
            return not self._bars
        if text in ("(", "[", "{"):
            return True
        known = _RELATIONS.keys() | _SET_SIGNS.keys() | _TIMES | _OVER | _CLOSING | {"\\pm", "\\mp", "\\circ"}
        return self._kind() == "command" and text not in known and not text.startswith("\\end{")

    def _kind(self) -> str:
        """Return the kind of the next token, or an empty text at the end."""
        return self.tokens[self.place].kind if self.place < len(self.tokens) else ""

    def _next(self) -> str:
        """Return the text of the next token, or an empty text at the end."""
        return self.tokens[self.place].text if self.place < len(self.tokens) else ""

    def _take(self, *texts: str) -> bool:
        """Move over the next token if it is one of these, and return whether it is."""
        found = self._next() in texts
        self.place += found
        return found

    def _expect(self, text: str) -> None:
        """Move over the next token. Raises `NotReadable` if it is another one."""
        if not self._take(text):
            raise NotReadable(f"{text!r} is missing")
