"""`BaseAnswer`: what every answer template is a subclass of."""

# Annotations are no texts here: pydantic would read those of `BaseAnswer` anew for every class that is made from it.

from collections.abc import Mapping
from functools import wraps
from inspect import isfunction
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import BaseModel, Field, PrivateAttr
from pydantic.json_schema import SkipJsonSchema

from karenina_template.templates.answer_key import AnswerKey, check_strategy
from karenina_template.templates.class_build_lock import CLASS_BUILD_LOCK
from karenina_template.templates.errors import TemplateError
from karenina_template.templates.field import VERIFICATION, FieldRule, TruthCoercer, is_verified, rule_of
from karenina_template.templates.regex_checks import RegexReport, verify_patterns

OWN_FIELDS: Final = frozenset({"id", "correct", "regex"})
"""The fields that every answer has. They are no part of a schema, nor of what a judge fills."""

METHODS: Final = frozenset({"verify", "verify_granular", "verify_regex", "field_results", "field_scores"})
"""The names that no field may have, because verification calls them."""


class BaseAnswer(BaseModel):
    """An answer in the form that a template gives it; a template is a subclass of this, usually named `Answer`.

    A judge fills the fields, and `verify` decides. Fields declared with `VerifiedField` need no more; a class may also
    bring its own `verify` and `verify_granular`, and set `self.correct` (what is right, for its own use),
    `self.regex` (patterns for the raw response, see `verify_regex`) and attributes of its own in a method
    `ground_truth(self)`, which is called when an answer has been made, or in `model_post_init`. Of a class with
    verified fields that sets no `correct`, it holds their truths by name. `id` is the question's.

    A field that the judge found nothing for is None, whatever its annotation; None never passes a primitive.
    """

    id: SkipJsonSchema[str | None] = Field(default=None, exclude=True, repr=False)
    correct: SkipJsonSchema[Any] = Field(default=None, exclude=True, repr=False)
    regex: SkipJsonSchema[Any] = Field(default=None, exclude=True, repr=False)

    _key: AnswerKey | None = PrivateAttr(default=None)
    _response: str = PrivateAttr(default="")

    __answer_key__: ClassVar[AnswerKey | None] = None

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        _call_ground_truth(cls)
        if cls.__pydantic_complete__:
            cls.answer_key()

    @classmethod
    def answer_key(cls) -> AnswerKey:
        """What the class itself declares as right. Empty for a class that was loaded from source: see `Template`.

        Raises `TemplateError` where a truth does not fit its field or the strategy names a field that is not verified.
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
        """The JSON Schema of the class, without truths, weights and defaults, wherever in it they stand."""
        return without_secrets(super().model_json_schema(*args, **kwargs))

    if not TYPE_CHECKING:  # else type checkers would allow every attribute

        def __setattr__(self, name: str, value: object) -> None:
            """Set a field, or an attribute of the template's own, such as a tolerance."""
            cls = type(self)
            settled = cls.model_config.get("frozen") or cls.model_config.get("extra") == "allow"
            if settled or name in cls.__pydantic_fields__ or hasattr(cls, name):
                super().__setattr__(name, value)
            else:
                object.__setattr__(self, name, value)

    def verify(self) -> bool:
        """Whether the answer is right: what the `VerificationStrategy` makes of the fields, else all must pass.

        A template whose only declarations are patterns (`self.regex`) passes here: the patterns decide. Raises
        `TemplateError` where there is nothing to verify at all.
        """
        key = self._answer_key()
        if key.rules:
            return key.verdict(self.field_results())
        if self.regex:
            return True
        raise TemplateError(
            f"{type(self).__name__} has no VerifiedField with a truth and no verify() of its own; an answer of a "
            "loaded template knows its truths when BoundTemplate.bind made it"
        )

    def verify_granular(self) -> float:
        """How much of the answer is right, 0 to 1, by weights and partial credit; of a class without `VerifiedField`
        1.0 or 0.0, as `verify` says."""
        key = self._answer_key()
        return key.grade(self.field_scores()) if key.rules else float(self.verify())

    def field_results(self) -> dict[str, bool]:
        """Whether each verified field passes."""
        return self._answer_key().results(self._values(), self._said())

    def field_scores(self) -> dict[str, float]:
        """The credit of each verified field, 0 to 1."""
        return self._answer_key().scores(self._values(), self._said())

    def verify_regex(self, raw_response: str) -> RegexReport:
        """Look for the patterns of `self.regex` in `raw_response`; see `verify_patterns` for what they may say."""
        return verify_patterns(self.regex, raw_response)

    def _credits(self, results: Mapping[str, bool]) -> dict[str, float]:
        """`field_scores`, where it is known which fields pass."""
        return self._answer_key().credits(results, self._values(), self._said())

    def _answer_key(self) -> AnswerKey:
        own: AnswerKey | None = (self.__pydantic_private__ or {}).get("_key")  # an attribute of pydantic's is slow here
        return own if own is not None else type(self).answer_key()

    def _said(self) -> str:
        response: str = (self.__pydantic_private__ or {}).get("_response", "")
        return response

    def _values(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self._answer_key().rules}


def _call_ground_truth(cls: type[BaseAnswer]) -> None:
    """Have `ground_truth()`, and else the truths of verified fields, set what is right in every answer of the class.

    What pydantic calls when a model has been made is replaced, so that classes without truths, which all templates
    that only declare share, pay nothing for it.
    """
    inherited = cls.model_post_init
    if hasattr(inherited, "sets_truth"):
        return
    has_rules = any(map(is_verified, cls.__pydantic_fields__.values()))
    if not has_rules and not isfunction(getattr(cls, "ground_truth", None)):
        return

    @wraps(inherited)
    def model_post_init(self: Any, context: Any, /) -> None:
        BaseAnswer.model_post_init(self, context)  # private attributes come first
        declared = getattr(type(self), "ground_truth", None)
        if isfunction(declared):
            declared(self)
        inherited(self, context)
        if self.correct is None:
            self.__dict__["correct"] = type(self).answer_key().truths()

    model_post_init.sets_truth = True  # type: ignore[attr-defined]  # copied by pydantic to what it wraps it in
    cls.model_post_init = model_post_init  # type: ignore[method-assign]


def without_secrets(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` without verification data and defaults; names of properties and definitions are never mistaken."""
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in (VERIFICATION, "default"):
            continue
        if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, dict):
            found[key] = {name: _clean(part) for name, part in value.items()}
        elif key in ("enum", "const"):
            found[key] = value
        else:
            found[key] = _clean(value)
    return found


def _clean(part: Any) -> Any:
    if isinstance(part, dict):
        return without_secrets(part)
    return [_clean(item) for item in part] if isinstance(part, list) else part


def _key_of(cls: type[BaseAnswer]) -> AnswerKey:
    fields = cls.model_fields
    rules: dict[str, FieldRule] = {}
    coercer = TruthCoercer(fields)
    for name, info in fields.items():
        try:
            rule = rule_of(info)
        except TemplateError as error:
            raise TemplateError(f"field {name!r} of {cls.__name__}: {error.reason}") from error
        if name in METHODS or (name in OWN_FIELDS and rule is not None):
            raise TemplateError(f"{cls.__name__} cannot have a field {name!r}: every answer has that name; rename it")
        if rule is not None:
            rules[name] = rule.with_coerced_truth(coercer, name)
    declared = getattr(cls, "VerificationStrategy", None)
    if declared is None:
        return AnswerKey(rules)
    if not hasattr(declared, "verify_strategy"):
        raise TemplateError(f"{cls.__name__}.VerificationStrategy lacks verify_strategy")
    return AnswerKey(rules, check_strategy(declared.verify_strategy, rules))
