"""Converts promptfoo assertions to template fields and rubric traits.

Assertions about the text become fields that check the response itself, so `contains` never becomes equality. Values
that the response should equal become fields that a judge extracts, and assertions that a model grades become traits.
Nothing in a source is executed. An assertion that a program decides becomes an unscorable trait, which the user has to
write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from keyword import iskeyword
from typing import Any, Final

from karenina_importing.formats.promptfoo.javascript import read_javascript
from karenina_importing.formats.promptfoo.keys import any_json_passes, unread_of_assertion
from karenina_importing.formats.promptfoo.rules import declare, number, texts_of
from karenina_importing.formats.promptfoo.templates import NotFilled, fill_all, show
from karenina_importing.formats.structured_values import as_list

_COMPARING: Final = (
    *("equals", "contains", "icontains", "contains-any", "icontains-any", "levenshtein"),
    *("similar", "similar:cosine", "similar:dot", "similar:euclidean"),
    *("factuality", "model-graded-factuality", "rouge-n", "bleu", "gleu", "meteor"),
)
"""Assertions with a correct answer. Each item of a list is a correct answer by itself."""
_FILE: Final = "file://"
_PROGRAM: Final = re.compile(r"\.(?:c?js|mjs|c?ts|mts|py|rb)(?::\w+)?\Z")
_PROGRAMS: Final = {"javascript": "JavaScript", "python": "Python", "ruby": "Ruby"}
_GRADED: Final = {
    "llm-rubric": "{}",
    "g-eval": "{}",
    "agent-rubric": "{}",
    "search-rubric": "{}",
    "model-graded-closedqa": "The response meets this criterion: {}",
    "factuality": "The facts that the response states agree with this reference, and contradict none of it: {}",
    "model-graded-factuality": "The facts that the response states agree with this reference, and contradict none of "
    "it: {}",
}
"""Assertions that a model grades by their value, with the descriptions of their traits."""
_FIXED: Final = {
    "answer-relevance": "The response answers the question that was asked, and does not digress",
    "is-refusal": "The response refuses to do what was asked",
}
"""Assertions that a model grades without a value, with the descriptions of their traits."""
_LONGEST_NAME: Final = 48
_ABOUT_CALLS: Final = ("cost", "latency", "perplexity", "perplexity-score")
"""Assertions about the model call, not about the response."""
_PART: Final = re.compile(
    r"\s*(?:output|JSON\.parse\(\s*output\s*\))"
    r"((?:\??\.(?!length\b)[A-Za-z_$][\w$]*|\[[0-9]{1,9}\]|\[(?:'[^'\\]*'|\"[^\"\\]*\")\])*)\s*;?\s*"
)
_MOST: Final = 1000
"""The maximum number of assertions that are read from a test."""
_MOST_CHARACTERS: Final = 5_000_000
"""The maximum number of characters in a test's values."""

Rendered = Callable[[Mapping[str, Any]], Any]
"""A function that returns an assertion's value as filled in by promptfoo, or None if it is unknown."""


@dataclass
class Converted:
    """The keys of a question made from assertions. `left_out` lists what could not be converted."""

    fields: dict[str, Any] = field(default_factory=dict)
    strategy: Any = None
    traits: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def question(self) -> dict[str, Any]:
        """The keys of a question in a YAML benchmark, without empty values."""
        parts = {"answer": self.fields, "strategy": self.strategy, "rubric": self.traits}
        return {key: value for key, value in parts.items() if value}


def convert(
    assertions: Any,
    variables: Mapping[str, Any],
    *,
    threshold: Any = None,
    rendered: Rendered = lambda _: None,
    read: Callable[[str], Any] | None = None,
    transform: Any = None,
) -> Converted:
    """Convert a list of assertions, with the test's `variables` filled in, to fields, a strategy and traits, and list
    what is left out. `threshold` is the share of the assertions, by weight, that must pass (all by default). `rendered`
    returns an assertion's value as filled in by promptfoo. `read` returns the contents of a file that a value refers
    to, or None if the file is not read. `transform` is the program, if any, that changes responses before they are
    compared.

    There is no template if some assertions are left out and the remaining fields would accept any JSON.
    """
    converter = _Converter(variables, rendered, read, transform)
    tree = converter.add_all(assertions, threshold)
    done = converter.done
    names = list(done.fields)
    if tree is not None and tree not in ({"all_of": names}, names[0] if len(names) == 1 else None):
        done.strategy = tree
    if converter.lacks and not done.traits and any_json_passes(done.fields):
        # What distinguished right from wrong answers is lost. Without a template, `check` reports that it is missing.
        done.fields, done.strategy = {}, None
        done.left_out.append("template of a test in which only is-json remains (any JSON would count as correct)")
    return done


def expected_answer(
    assertions: Any, variables: Mapping[str, Any], rendered: Rendered = lambda _: None
) -> str | float | list[Any] | None:
    """Return the first correct answer in `assertions`, which is a string, a number, or a list of these, or None if
    there is none. Assertions that do not decide the test, or that change the response, are ignored. `variables` and
    `rendered` work as in `convert`.
    """
    for assertion in _flat(assertions):
        if assertion.get("type") not in _COMPARING or _only_measures(assertion) or assertion.get("transform"):
            continue  # the transformed response is only a part of the answer
        value = rendered(assertion)
        value = assertion.get("value") if value is None else value
        answers = [_filled_answer(item, variables) for item in (value if isinstance(value, list) else [value])]
        if answers and None not in answers:
            return answers if isinstance(value, list) else answers[0]
    return None


def _filled_answer(value: Any, variables: Mapping[str, Any]) -> Any:
    """Return a correct answer with variables filled in, or None if this fails, or if it is empty, a reference to a
    file, or neither a string nor a number.
    """
    if not isinstance(value, str):
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None
    try:
        text = show(fill_all(value, variables))
    except NotFilled:
        return None
    return None if not text or text.startswith(_FILE) else text


def read_part(transform: Any) -> str | None:
    """Return the part of a response's JSON that a transform reads, such as `.city`, "" for the whole, or None if it
    does anything else.
    """
    if not transform:
        return ""
    match = _PART.fullmatch(transform) if isinstance(transform, str) else None
    return None if match is None else match[1]


def _flat(assertions: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the assertions, with those in assertion sets in place of the set. Anything but mappings is skipped."""
    for assertion in assertions if isinstance(assertions, list) else ():
        if isinstance(assertion, Mapping) and assertion.get("type") == "assert-set":
            yield from (other for other in as_list(assertion.get("assert")) if isinstance(other, Mapping))
        elif isinstance(assertion, Mapping):
            yield assertion


@dataclass
class _Converter:
    """Converts the assertions of one test. The result is in `done`."""

    variables: Mapping[str, Any]
    rendered: Rendered
    read: Callable[[str], Any] | None
    transform: Any = None
    done: Converted = field(default_factory=Converted)
    lacks: bool = False
    """Whether an assertion about the response's text is missing, or only partly converted."""
    count: int = 0
    size: int = 0

    def add_all(self, assertions: Any, threshold: Any) -> Any:
        """Add assertions and return their part of the strategy, or None if there are no fields. If a strategy cannot
        express the threshold, this is recorded, and all fields must pass.
        """
        if not isinstance(assertions, list):
            if assertions is not None:
                self.done.left_out.append("assert that is not a list")
            return None
        parts: list[Any] = []
        weights: list[float] = []
        complete = True
        for assertion in assertions:
            before = len(self.done.left_out), len(self.done.traits)
            part = self._add(assertion)
            complete = complete and part is not None and before == (len(self.done.left_out), len(self.done.traits))
            if part is not None:
                parts.append(part)
                weights.append(number(assertion.get("weight"), 1.0))
        if not parts:
            return None
        least = number(threshold, 0.0)
        whole = parts[0] if len(parts) == 1 else {"all_of": parts}
        if threshold is None or least >= 1:
            return whole
        # promptfoo averages scores; sets and similarities have fractional scores, so passes cannot be counted.
        are_counted = complete and not any(isinstance(part, dict) or self._is_graded(part) for part in parts)
        if least <= 0 or not are_counted or len(set(weights)) > 1:
            self.done.left_out.append("threshold (all fields must pass)")
            return whole
        count = max(1, math.ceil(least * len(parts) - 1e-9))
        return parts[0] if len(parts) == 1 else {"at_least": {"n": count, "of": parts}}

    def _is_graded(self, name: str) -> bool:
        """Return whether a field has a fractional score because it compares by similarity."""
        rule = self.done.fields[name].get("verify_with")
        return isinstance(rule, Mapping) and rule.get("type") == "SemanticMatch"

    def _add(self, assertion: Any) -> Any:
        """Add an assertion and return its part of the strategy, or None if it does not become a field. It may also
        become a trait, or be recorded as left out.
        """
        self.count += 1
        if self.count > _MOST:
            self.done.left_out.append(f"assertion beyond the first {_MOST:,} of a test")
            return None
        if not isinstance(assertion, Mapping) or not isinstance(assertion.get("type"), str):
            self.done.left_out.append("assertion without a type")
            return None
        kind: str = assertion["type"]
        if kind == "assert-set":
            self.done.left_out += unread_of_assertion(assertion, kind)
            return self.add_all(assertion.get("assert"), assertion.get("threshold"))
        base, negated = kind.removeprefix("not-"), kind.startswith("not-")
        if _only_measures(assertion):
            self.done.left_out.append(
                f"{kind} {'that only measures' if assertion.get('metricOnly') else 'of weight 0'}"
            )
            return None
        own = assertion.get("transform")
        is_graded = base in _GRADED or base in _FIXED
        if own and not (is_graded and read_part(own) is not None and read_part(self.transform) is not None):
            return self._leave_out(f"{kind} of a transformed output", base)
        value = self._value(assertion, base)
        if value is _UNKNOWN:
            return self._leave_out(f"{kind} whose value promptfoo computes", base)
        declared = self._read_program(value, negated=negated) if base == "javascript" else None
        if declared is None and (base in _PROGRAMS or _is_program(value)):
            self.done.left_out += unread_of_assertion(assertion, base)
            self._add_stub(assertion, kind, base, value)
            return None
        if is_graded:
            self.done.left_out += unread_of_assertion(assertion, base)
            self._add_trait(assertion, kind, base, value, negated=negated)
            return None
        is_program = declared is not None
        declared = declared or declare(base, value, assertion, negated=negated)
        if declared is None:
            return self._leave_out(kind, base)
        self.done.left_out += unread_of_assertion(assertion, base)
        if base in ("is-json", "contains-json") and value is not None:
            self._leave_out(f"schema of {kind}", base)
        weight = number(assertion.get("weight"), 1.0)
        if weight != 1:
            declared["weight"] = weight
        # A judge sees the names of the fields that it fills, so these names must not contain the truth.
        shown = show(value) if is_program else f"{kind} {_first_text(value)}"
        label = self._label(assertion, shown) if "description" not in declared else "answer"
        name = _unique(_as_name(label, kind), self.done.fields)
        self.done.fields[name] = declared
        return name

    def _leave_out(self, what: str, base: str) -> None:
        """Record that an assertion is left out. Unless it is about the model call, this sets `lacks`. `what` describes
        the assertion to the user, and `base` is its type without `not-`.
        """
        self.done.left_out.append(what)
        self.lacks = self.lacks or base not in _ABOUT_CALLS

    def _read_program(self, code: Any, *, negated: bool) -> dict[str, Any] | None:
        """Return the field for JavaScript code that only searches the response for text, or None for any other code. If
        `negated` is set, the field requires the opposite. Also returns None if the test changes responses.
        """
        if self.transform or not isinstance(code, str):
            return None
        try:
            declared = read_javascript(fill_all(code, self.variables), self.variables)
        except NotFilled:
            return None
        if declared is not None and negated:
            rule, holds = declared["verify_with"], declared.get("ground_truth", True)
            declared = {**({"ground_truth": False} if holds else {}), "verify_with": rule}
        return declared

    def _value(self, assertion: Mapping[str, Any], base: str) -> Any:
        """Return the value of an assertion of the type `base` (without `not-`), as promptfoo has filled it in or else
        with variables filled in and files read, or `_UNKNOWN` if that is not possible. A program is returned as it is
        written. Variables without a value are recorded as left out.

        It is not possible if only promptfoo can fill in the value, if a file is not read, or if the test's values are
        too large.
        """
        rendered = self.rendered(assertion)
        if rendered is not None:
            return rendered
        value = assertion.get("value")
        if base in _PROGRAMS or _is_program(value):
            return value
        missing: set[str] = set()
        try:
            value = fill_all(value, self.variables, missing)
        except NotFilled:
            return _UNKNOWN
        kind = assertion["type"]
        self.done.left_out += [f"the variable {name} of {kind}, which has no value" for name in sorted(missing)]
        if isinstance(value, str) and value.startswith(_FILE):
            content = self.read(value) if self.read is not None else None
            value = _UNKNOWN if content is None else content
        if isinstance(value, str):
            self.size += len(value)
        return _UNKNOWN if self.size > _MOST_CHARACTERS else value

    def _label(self, assertion: Mapping[str, Any], other: str) -> str:
        """Return the name of an assertion: its `metric` with the variables filled in, or `other` if it has none or they
        cannot be filled in.
        """
        metric = assertion.get("metric")
        try:
            return show(fill_all(metric, self.variables)) or other if isinstance(metric, str) else other
        except NotFilled:
            return other

    def _add_trait(self, assertion: Mapping[str, Any], kind: str, base: str, value: Any, *, negated: bool) -> None:
        """Add the trait for an assertion of the type `kind` that a model grades. `base` is the type without `not-`, and
        lower scores are better if the assertion is `negated`. A list in `g-eval` gives several traits. An assertion
        without a value is recorded as left out.
        """
        texts = value if isinstance(value, list) and base == "g-eval" else [value]
        for text in texts:
            shown = _FIXED.get(base) or (_GRADED[base].format(show(text).strip()) if show(text).strip() else "")
            if not shown:
                self.done.left_out.append(f"{kind} without a value")
                continue
            label = self._label(assertion, kind if base in _FIXED else f"{show(text)}")
            part = (read_part(self.transform) or "") + (read_part(assertion.get("transform")) or "")
            if part:
                shown = f"Read only the value of `{part.lstrip('?.')}` in the response's JSON. {shown}"
            trait: dict[str, Any] = {"type": "llm", "name": _as_name(label, kind), "description": shown}
            if negated:
                trait = {**trait, "higher_is_better": False}
            self._add_to_rubric(trait)

    def _add_stub(self, assertion: Mapping[str, Any], kind: str, base: str, value: Any) -> None:
        """Add an unscorable trait, which the user has to write, for an assertion that a program decides. The assertion
        is also recorded as left out. `kind` is its type, and `base` is the same without `not-`.
        """
        language = _PROGRAMS.get(base) or f"a program for {kind}"
        label = self._label(assertion, f"{kind} {show(value)}")
        stub: dict[str, Any] = {
            "type": "callable",
            "kind": "boolean",
            "name": _as_name(label, kind),
            "description": show(value) or kind,
            "unscorable": f"promptfoo runs {language} here (see the trait description). Rewrite it in `source` as a "
            "Python function of the response text, and remove `unscorable`",
        }
        self._add_to_rubric({**stub, "higher_is_better": False} if kind.startswith("not-") else stub)
        self.done.left_out.append(f"{kind} (a trait to be written)")

    def _add_to_rubric(self, trait: dict[str, Any]) -> None:
        """Add a trait, renamed if its name is taken, unless the rubric already has a trait with the same content."""
        if any({**other, "name": ""} == {**trait, "name": ""} for other in self.done.traits):
            return
        trait["name"] = _unique(trait["name"], {other["name"]: other for other in self.done.traits})
        self.done.traits.append(trait)


class _Unknown:
    """The type of `_UNKNOWN`, which stands for a value that only promptfoo can fill in."""


_UNKNOWN: Final = _Unknown()


def _first_text(value: Any) -> str:
    texts = texts_of(value)
    return texts[0] if texts else ""


def _only_measures(assertion: Mapping[str, Any]) -> bool:
    """Return whether an assertion has no effect on whether the test passes."""
    return assertion.get("metricOnly") is True or number(assertion.get("weight"), 1.0) <= 0


def _is_program(value: Any) -> bool:
    """Return whether a value refers to a file that contains a program."""
    return isinstance(value, str) and value.startswith(_FILE) and _PROGRAM.search(value) is not None


def _as_name(text: str, default: str) -> str:
    """Make a field name from the words in a string, or from `default` if it has no ASCII words. Long names are cut at
    the end of a word. Names that are not allowed for fields are prefixed with `is_`.
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text[:1000])
    words = re.findall(r"[a-z0-9]+", spaced.casefold()) or re.findall(r"[a-z0-9]+", default)
    name = ""
    for word in words:
        if name and len(name) + 1 + len(word) > _LONGEST_NAME:
            break
        name = f"{name}_{word}" if name else word[:_LONGEST_NAME]
    return f"is_{name}" if name[:1].isdigit() or not name or iskeyword(name) or name in _reserved_names() else name


@cache
def _reserved_names() -> frozenset[str]:
    """Return the names that template fields cannot have."""
    from karenina_template.templates import BaseAnswer
    from karenina_template.templates.base import OWN_FIELDS

    return frozenset({*dir(BaseAnswer), *OWN_FIELDS})


def _unique(name: str, taken: Mapping[str, Any]) -> str:
    """Return `name` or, if it is taken, the first of `name_2`, `name_3` and so on that is not."""
    number = 2
    unique = name
    while unique in taken:
        unique, number = f"{name}_{number}", number + 1
    return unique
