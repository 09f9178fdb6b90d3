"""The base class of answer templates, and the ground truths of their fields."""

# No `from __future__ import annotations` here: pydantic would parse the annotations again for every subclass.

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isfunction
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, Field, PrivateAttr
from pydantic.json_schema import SkipJsonSchema

from karenina_template.templates.compose import (
    AllOf,
    AnyOf,
    AtLeastN,
    FieldCheck,
    Result,
    Tree,
    describe,
    fields_of,
    granular,
    known_result,
    passes,
    prune,
    validate,
)
from karenina_template.templates.errors import TemplateError
from karenina_template.templates.field import (
    CLASS_BUILD_LOCK,
    VERIFICATION,
    FieldRule,
    TruthCoercer,
    is_verified,
    rule_of,
)
from karenina_template.templates.primitives import Undecided
from karenina_template.templates.regex_checks import RegexReport, verify_patterns

OWN_FIELDS: Final = frozenset({"id", "correct", "regex"})
"""Fields that every answer has. Judges do not fill them, and schemas do not contain them."""
METHODS: Final = frozenset({"verify", "verify_granular", "verify_regex", "field_results", "field_scores"})
"""Methods that verification calls. Fields cannot have these names."""

NO_RESPONSES: Final[Mapping[str, str]] = {}


@dataclass(slots=True)
class AnswerKey:
    """The rules of the verified fields, keyed by name, and the strategy that combines them.

    Without a strategy, all fields must pass.
    """

    rules: Mapping[str, FieldRule] = field(default_factory=dict)
    strategy: Tree | None = None
    _sources: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._sources = {name: rule.source for name, rule in self.rules.items() if rule.source is not None}

    @property
    def composition(self) -> str | None:
        """The name of the strategy, such as "all_of", or None if no field is verified."""
        return describe(self.strategy) if self.rules else None

    def truths(self) -> dict[str, object] | None:
        """Return the ground truths by field, or None if no field is verified."""
        return {name: rule.truth for name, rule in self.rules.items()} or None

    def sources(self) -> Mapping[str, str]:
        """Return the names of the known values that fill fields, keyed by field."""
        return self._sources

    def without(self, names: Collection[str]) -> Self | None:
        """Return the key without the fields in `names`, or None if no condition remains."""
        strategy = None if self.strategy is None else prune(self.strategy, names)
        rules = {name: rule for name, rule in self.rules.items() if name not in names}
        if not rules or (strategy is None) is not (self.strategy is None):
            return None
        return type(self)(rules, strategy)

    def results(
        self, values: Mapping[str, object], response: str, responses: Mapping[str, str] = NO_RESPONSES
    ) -> dict[str, bool | Undecided]:
        """Return whether each field passes, given the extracted `values` and the raw `response` (or the text in
        `responses` that a field reads instead), or `Undecided` if its primitive cannot tell or its known value is
        missing. A known value serves as its own response. Raises `InvalidAnswer` if a primitive returns an invalid
        result.
        """
        results: dict[str, bool | Undecided] = {}
        for name, rule in self.rules.items():
            value = values.get(name)
            if rule.source is None:
                results[name] = rule.passes(value, responses.get(name, response))
            elif value is None:
                results[name] = Undecided(f"no stage has set the known value {rule.source!r} for this answer")
            else:
                results[name] = rule.passes(value, str(value))
        return results

    def credits(self, results: Mapping[str, Result], values: Mapping[str, object]) -> dict[str, float | None]:
        """Return the credit for each field, from 0 to 1. The credit of an undecided field is None."""
        return {name: rule.credit(results[name], values.get(name)) for name, rule in self.rules.items()}

    def verdict(self, results: Mapping[str, Result]) -> bool | None:
        """Return the verdict for `results`, or None if it is undecided."""
        return passes(self.strategy, results)

    def why_undecided(self, results: Mapping[str, Result]) -> str | None:
        """Return the reasons for undecided fields of the strategy, or None if all are decided. For example, "field
        year: 01/02/2024 can be read as two different dates".
        """
        counted = results if self.strategy is None else fields_of(self.strategy)
        reasons = [
            f"field {name}: {result.why if isinstance(result, Undecided) else 'the result cannot be decided'}"
            for name, result in results.items()
            if name in counted and (result is None or isinstance(result, Undecided))
        ]
        return "; ".join(reasons) or None

    def grade(self, scores: Mapping[str, float | None]) -> float:
        """Return the granular score from 0 to 1 for the given credits. A credit of None counts as 0."""
        return granular(self.strategy, {name: rule.weight for name, rule in self.rules.items()}, scores)


def check_strategy(strategy: object, fields: Mapping[str, FieldRule]) -> Tree:
    """Return `strategy` as a tree. A string is taken as a field name. Raises `TemplateError` if the strategy is invalid
    or refers to anything that is not in `fields`.
    """
    if isinstance(strategy, str):
        strategy = FieldCheck(strategy)
    if not isinstance(strategy, AllOf | AnyOf | AtLeastN | FieldCheck):
        raise TemplateError(
            f"verify_strategy must be a tree of AllOf, AnyOf, AtLeastN and FieldCheck, not {strategy!r:.200}"
        )
    try:
        validate(strategy, fields)
    except ValueError as error:
        raise TemplateError(str(error)) from error
    return strategy


@dataclass(slots=True)
class Binding:
    """The key and the texts with which an answer is verified, and the results that do not depend on its values.

    `key` is None if the ground truths are those of the answer's class. `response` is the raw response. `responses` are
    the texts that fields read instead of it. `results` are the results of fields whatever their values are. `assumed`
    are the results that `Comparison` assumes for undecided fields, which it only sets on copies.
    """

    key: AnswerKey | None = None
    response: str = ""
    responses: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, Undecided | Literal[False]] = field(default_factory=dict)
    assumed: Mapping[str, bool] = field(default_factory=dict)


UNBOUND: Final = Binding()


class BaseAnswer(BaseModel):
    """Base class of answer templates. Subclasses are usually called `Answer`.

    A judge fills the fields, and `verify` returns the verdict. If you declare the fields with `VerifiedField`, there is
    nothing else to do. A class can also define its own `verify` and `verify_granular`. Define `ground_truth(self)`,
    which is called for each new answer, or `model_post_init` to set `self.correct` (the ground truth, for your own
    use), `self.regex` (patterns for the raw response, see `verify_regex`) and other attributes. By default, `correct`
    contains the ground truths of the verified fields. `id` is the question's ID.

    If the judge finds nothing for a field, the field is None, whatever its annotation. None never passes.

    If a primitive cannot decide whether a value passes, the field's result is None. The verdict is then None as well,
    if it depends on the field. Your own `verify` gets None from `field_results`, and may return None or
    `Undecided(why)` itself. If it returns True or False, it is called again with each possible result of the undecided
    field. The answer only counts as decided if all these calls return the same verdict.
    """

    id: SkipJsonSchema[str | None] = Field(default=None, exclude=True, repr=False)
    correct: SkipJsonSchema[Any] = Field(default=None, exclude=True, repr=False)
    regex: SkipJsonSchema[Any] = Field(default=None, exclude=True, repr=False)

    _binding: Binding | None = PrivateAttr(default=None)  # a single attribute, because pydantic copies each default

    __answer_key__: ClassVar[AnswerKey | None] = None

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        _call_ground_truth(cls)
        if cls.__pydantic_complete__:
            cls.answer_key()

    @classmethod
    def answer_key(cls) -> AnswerKey:
        """Return the ground truths and the strategy that the class declares, building the class if necessary. A class
        loaded from source has neither; see `Template`. Raises `TemplateError` if they are invalid, a field has a
        reserved name, or a method is async.
        """
        own = cls.__dict__.get("__answer_key__")
        if isinstance(own, AnswerKey):
            return own
        with CLASS_BUILD_LOCK:
            if not cls.__pydantic_complete__:
                cls.model_rebuild()
            key = _key_of(cls)
        cls.__answer_key__ = key
        return key

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the JSON Schema of the class, without ground truths, weights or defaults."""
        return without_secrets(super().model_json_schema(*args, **kwargs))

    if not TYPE_CHECKING:  # type checkers would allow every attribute otherwise

        def __setattr__(self, name: str, value: object) -> None:
            """Set a field, as pydantic does, or another attribute of the template, such as a tolerance."""
            cls = type(self)
            settled = cls.model_config.get("frozen") or cls.model_config.get("extra") == "allow"
            if settled or name in cls.__pydantic_fields__ or hasattr(cls, name):
                super().__setattr__(name, value)
            else:
                object.__setattr__(self, name, value)

    def verify(self) -> bool | Undecided | None:
        """Return whether the answer is correct, or None or `Undecided` if this cannot be decided. The class's
        `VerificationStrategy` decides; without one, all fields must pass. A template that only has patterns
        (`self.regex`) always passes here, because they are checked later. Raises `TemplateError` if there is nothing to
        verify.
        """
        key = self._answer_key()
        if key.rules:
            return key.verdict(self.field_results())
        if self.regex:
            return True
        raise TemplateError(
            f"{type(self).__name__} has neither a VerifiedField with a ground truth nor a verify() "
            "method; create answers to loaded templates with BoundTemplate.bind, which adds the ground "
            "truths"
        )

    def verify_granular(self) -> float | None:
        """Return how much of the answer is correct, from 0 to 1, based on weights and partial credit, or None if the
        verdict is undecided. Undecided fields earn nothing. For a class without `VerifiedField`, the result is 1.0 or
        0.0, depending on `verify`.
        """
        key = self._answer_key()
        if not key.rules:
            verdict = self.verify()
            return None if verdict is None or isinstance(verdict, Undecided) else float(verdict)
        scores = self.field_scores()
        if None in scores.values() and key.verdict(self.field_results()) is None:
            return None
        return key.grade(scores)

    def field_results(self) -> dict[str, bool | None]:
        """Return whether each verified field passes. None means undecided."""
        return {name: known_result(result) for name, result in self._results().items()}

    def field_scores(self) -> dict[str, float | None]:
        """Return the credit for each verified field, from 0 to 1. None means undecided."""
        return self._credits(self._results())

    def verify_regex(self, raw_response: str) -> RegexReport:
        """Search `raw_response` for the patterns in `self.regex`. See `verify_patterns` for their format."""
        return verify_patterns(self.regex, raw_response)

    def settle(
        self, key: AnswerKey, responses: Mapping[str, str], results: Mapping[str, Undecided | Literal[False]]
    ) -> None:
        """Set the key, the response for each field, and the results that replace those of fields, for verifying the
        answer.

        A field in `results` gets this result whatever its value is. This is meant for answers bound to a question,
        which start with all rules of their template.
        """
        before = self._get_binding()
        self._binding = replace(before, key=key, responses=responses, results={**before.results, **results})

    def _get_binding(self) -> Binding:
        """Return what the answer is verified with."""
        own: Binding | None = (self.__pydantic_private__ or {}).get("_binding")  # faster than an attribute
        return own if own is not None else UNBOUND

    def _results(self) -> dict[str, bool | Undecided]:
        """Return the result of each verified field: the one set by `settle` or assumed by `Comparison`, if any, or that
        of its rule. Undecided results contain the reason.

        Fields whose known value is None get the result set by `BoundTemplate.bind`, and fields whose turn is missing
        from the conversation get the result set by `read_turns`.
        """
        binding, key = self._get_binding(), self._answer_key()
        results = key.results(self._values(key), binding.response, binding.responses)
        return {**results, **binding.results, **binding.assumed}

    def _credits(self, results: Mapping[str, Result]) -> dict[str, float | None]:
        key = self._answer_key()
        scores = key.credits(results, self._values(key))
        assumed = self._get_binding().assumed
        return {**scores, **{name: float(passed) for name, passed in assumed.items()}} if assumed else scores

    def _answer_key(self) -> AnswerKey:
        """Return the ground truths and strategy of a declared template, or those of the class."""
        key = self._get_binding().key
        return key if key is not None else type(self).answer_key()

    def _values(self, key: AnswerKey) -> dict[str, object]:
        return {name: getattr(self, name) for name in key.rules}


def _call_ground_truth(cls: type[BaseAnswer]) -> None:
    """Replace the class's `model_post_init` by one that also calls `ground_truth()`, and sets `correct` if that does
    not. Only classes with ground truths are changed, so that the shared classes of declared templates stay fast.
    """
    inherited = cls.model_post_init
    if hasattr(inherited, "sets_truth"):
        return
    has_rules = any(map(is_verified, cls.__pydantic_fields__.values()))
    if not has_rules and not isfunction(getattr(cls, "ground_truth", None)):
        return

    @wraps(inherited)
    def model_post_init(self: Any, context: Any, /) -> None:
        """Call `ground_truth()` and the inherited method, and set `correct` to the declared truths if neither of them
        set it.
        """
        BaseAnswer.model_post_init(self, context)  # initializes private attributes
        declared = getattr(type(self), "ground_truth", None)
        if isfunction(declared):
            declared(self)
        inherited(self, context)
        if self.correct is None:
            self.__dict__["correct"] = type(self).answer_key().truths()

    model_post_init.sets_truth = True  # type: ignore[attr-defined]  # pydantic copies it to its wrapper
    cls.model_post_init = model_post_init  # type: ignore[method-assign]


def without_secrets(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a schema without verification data and defaults. Properties that happen to have the same names
    are kept.
    """
    cleaned: dict[str, Any] = {}
    for key, value in schema.items():
        if key in (VERIFICATION, "default"):
            continue
        if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, dict):
            cleaned[key] = {name: _clean(part) for name, part in value.items()}
        elif key in ("enum", "const"):
            cleaned[key] = value
        else:
            cleaned[key] = _clean(value)
    return cleaned


def _clean(part: Any) -> Any:
    if isinstance(part, dict):
        return without_secrets(part)
    return [_clean(item) for item in part] if isinstance(part, list) else part


def _key_of(cls: type[BaseAnswer]) -> AnswerKey:
    """Return the ground truths and the strategy that a class declares. Raises `TemplateError` if they are invalid, a
    field has a reserved name, or a method is async.
    """
    fields = cls.model_fields
    for name in sorted({*METHODS, "ground_truth"}):
        method = getattr(cls, name, None)
        if iscoroutinefunction(method) or isasyncgenfunction(method):
            raise TemplateError(f"{cls.__name__}.{name} is async, but it is never awaited; write `def {name}` instead")
    rules: dict[str, FieldRule] = {}
    coercer = TruthCoercer(fields)
    for name, info in fields.items():
        try:
            rule = rule_of(info)
        except TemplateError as error:
            raise TemplateError(f"field {name!r} of {cls.__name__}: {error.reason}") from error
        if name in METHODS or (name in OWN_FIELDS and rule is not None):
            raise TemplateError(
                f"{cls.__name__} cannot have a field named {name!r}, which is a reserved name; rename the field"
            )
        if rule is not None:
            rules[name] = rule.with_coerced_truth(coercer, name)
    declared = getattr(cls, "VerificationStrategy", None)
    if declared is None:
        return AnswerKey(rules)
    if not hasattr(declared, "verify_strategy"):
        raise TemplateError(f"{cls.__name__}.VerificationStrategy has no verify_strategy; define it")
    return AnswerKey(rules, check_strategy(declared.verify_strategy, rules))
